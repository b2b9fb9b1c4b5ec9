// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdicts that depend on assumed values.

use std::fmt::Write;

use crate::sensitivity::Variation;

pub(super) fn sensitivity(out: &mut String, variations: &[Variation]) {
    if variations.is_empty() {
        return;
    }
    let turned = variations.iter().filter(|v| !v.changes.is_empty()).count();
    let _ = writeln!(
        out,
        "\n## What depends on assumed numbers\n\nNumbers of workloads, machines and presets that no source fixes were changed one at a time, to half and \
         twice what they are or to values that the experiment states (`tiltyard reproduce --sensitivity`): {} variations. {} of them change no \
         verdict. The others:\n\n\
         | number of | parameter | tried | claim | from | to | measured then |\n| --- | --- | ---: | --- | --- | --- | --- |",
        variations.len(),
        variations.len() - turned
    );
    for variation in variations {
        for change in &variation.changes {
            let _ = writeln!(
                out,
                "| {} | {} | {} | `{}` | {} | {} | {} |",
                variation.place,
                variation.parameter,
                variation.to,
                change.id,
                change.from.name(),
                change.to.name(),
                change.after.join("; ")
            );
        }
    }
}
