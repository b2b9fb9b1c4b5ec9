// SPDX-License-Identifier: GPL-2.0-or-later
//! The virtio-fs device: takes the guest's requests out of its memory and puts answers there.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackendMut, VhostUserDaemon, VringRwLock, VringT};
use virtio_queue::{QueueOwnedT, Reader, Writer};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use super::files::Files;

/// What the guest mounts.
pub const TAG: &str = "host";
/// One queue for what is urgent, which is only forgetting, and one for requests.
const QUEUES: usize = 2;
/// Descriptors of a queue: as many as a request of the largest size takes, and some.
pub const QUEUE_SIZE: usize = 1024;

/// VIRTIO_F_VERSION_1, VIRTIO_RING_F_INDIRECT_DESC, VHOST_USER_F_PROTOCOL_FEATURES.
const FEATURES: u64 = 1 << 32 | 1 << 28 | 1 << 30;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A folder of the host that a guest can be given.
pub struct Share {
    _device: VhostUserDaemon<Arc<Mutex<Device>>>,
}

impl Share {
    /// Serves `root` until dropped; the stream is for QEMU.
    pub fn new(root: &Path) -> io::Result<(Self, UnixStream)> {
        let memory = Memory::new(GuestMemoryMmap::new());
        let device = Device {
            files: Files::new(root),
            memory: memory.clone(),
        };
        let device = Arc::new(Mutex::new(device));
        let failed = |error: vhost_user_backend::Error| io::Error::other(error.to_string());
        let device = VhostUserDaemon::new("virtio-fs".to_owned(), device, memory);
        let mut device = device.map_err(failed)?;
        // The daemon takes no stream but one that it accepts itself. The folder is ours alone, and
        // gone before QEMU starts.
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        let stream = UnixStream::connect(&path)?;
        device.start(&mut listener.into()).map_err(failed)?;
        Ok((Self { _device: device }, stream))
    }
}

struct Device {
    files: Files,
    memory: Memory,
}

impl Device {
    /// Answers everything that waits in the queue.
    fn serve(&mut self, vring: &VringRwLock) -> io::Result<()> {
        let memory = self.memory.memory();
        let chains: Vec<_> = vring
            .get_mut()
            .get_queue_mut()
            .iter(memory.clone())
            .map_err(io::Error::other)?
            .collect();
        for chain in chains {
            let head = chain.head_index();
            let mut request = Vec::new();
            Reader::new(&*memory, chain.clone())
                .map_err(io::Error::other)?
                .read_to_end(&mut request)?;
            let mut writer = Writer::new(&*memory, chain).map_err(io::Error::other)?;
            if let Some(answer) = self.files.answer(&request, writer.available_bytes()) {
                writer.write_all(&answer)?;
            }
            let length = writer.bytes_written() as u32;
            vring.add_used(head, length).map_err(io::Error::other)?;
        }
        vring.signal_used_queue()
    }
}

impl VhostUserBackendMut for Device {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        FEATURES
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ
    }

    fn set_event_idx(&mut self, _enabled: bool) {
        // Not among the features.
    }

    fn update_memory(&mut self, _memory: Memory) -> io::Result<()> {
        // The daemon changes the one that it was given, which is ours.
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        // Without one the thread that serves would outlive the guest, and hold its memory.
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn handle_event(
        &mut self,
        queue: u16,
        _events: EventSet,
        vrings: &[VringRwLock],
        _thread: usize,
    ) -> io::Result<()> {
        match vrings.get(usize::from(queue)) {
            Some(vring) => self.serve(vring),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_share_hangs_up() {
        let (share, mut stream) = Share::new(Path::new("/")).unwrap();
        drop(share);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}
