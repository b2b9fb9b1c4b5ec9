// SPDX-License-Identifier: GPL-2.0-or-later

use super::*;

fn host() -> HostMemory {
    // SAFETY: the tests pass strings, or addresses near NULL.
    unsafe { HostMemory::new() }
}

#[derive(Debug)]
struct Printed {
    text: Vec<u8>,
    /// Without the limit.
    len: usize,
}

fn print(
    fmt: &[u8],
    args: &[u64],
    limit: usize,
    memory: &mut HostMemory,
) -> Result<Printed, FormatError> {
    let mut text = Vec::new();
    let len = format(fmt, args, limit, memory, &mut text)?;
    Ok(Printed { text, len })
}

fn text(fmt: &str, args: &[u64]) -> String {
    let formatted = print(fmt.as_bytes(), args, 1024, &mut host()).unwrap();
    assert_eq!(formatted.len, formatted.text.len());
    String::from_utf8(formatted.text).unwrap()
}

fn refused(fmt: &str, args: &[u64]) -> FormatError {
    print(fmt.as_bytes(), args, 1024, &mut host()).expect_err(fmt)
}

fn address(string: &std::ffi::CStr) -> u64 {
    string.as_ptr() as u64
}

#[test]
fn integers() {
    let minus_one = u64::MAX;
    assert_eq!(
        text("%d %i %u", &[5, minus_one, minus_one]),
        "5 -1 4294967295"
    );
    assert_eq!(
        text("%d", &[0xffff_ffff]),
        "-1",
        "an int is the low 32 bits"
    );
    assert_eq!(
        text("%ld %lli %lu %llu", &[minus_one; 4])
            .matches("18446744073709551615")
            .count(),
        2
    );
    assert_eq!(text("%lld", &[i64::MIN as u64]), "-9223372036854775808");
    assert_eq!(
        text("%x %X %lx %llX", &[0xbeef, 0xbeef, minus_one, 0]),
        "beef BEEF ffffffffffffffff 0"
    );
    assert_eq!(text("%x", &[0x1_0000_0002]), "2");
}

#[test]
fn widths_and_flags() {
    assert_eq!(text("[%5d][%-5d][%05d]", &[42; 3]), "[   42][42   ][00042]");
    assert_eq!(
        text("[%5d][%-5d][%05d]", &[-42i64 as u64; 3]),
        "[  -42][-42  ][-0042]"
    );
    assert_eq!(text("[%+d][% d][%+5d]", &[7; 3]), "[+7][ 7][   +7]");
    assert_eq!(
        text("[%-05d][%+u]", &[7; 2]),
        "[7    ][7]",
        "- beats 0, + is for signed ones"
    );
    assert_eq!(text("[%08llx][%2d]", &[0xabc, 12345]), "[00000abc][12345]");
    assert_eq!(text("100%% of %d%%", &[3]), "100% of 3%");
}

#[test]
fn strings_and_characters() {
    let (name, empty) = (c"abc", c"");
    let args = [address(name), address(name), address(name), address(empty)];
    assert_eq!(
        text("%s: [%6s][%-6s][%3s]", &args),
        "abc: [   abc][abc   ][   ]"
    );
    assert_eq!(
        text("<%s><%s>", &[0, 8]),
        "<><>",
        "NULL, and a member of NULL"
    );
    assert_eq!(text("%pks.", &[address(name)]), "abc.");
    assert_eq!(
        text("%c%c[%3c][%-3c]", &[0x41, 0x142, 0x43, 0x44]),
        "AB[  C][D  ]"
    );
    assert_eq!(text("caf\u{e9}\t%d\n", &[1]), "caf\u{e9}\t1\n");
}

#[test]
fn pointers_print_as_numbers_by_appearance() {
    let pointers = [
        0xffff_8880_0000_1000,
        0xffff_8880_0000_2000,
        0xffff_8880_0000_1000,
        0,
    ];
    assert_eq!(
        text("%p %pK %px %p", &pointers),
        "0000000000000001 0000000000000002 0000000000000001 0000000000000000"
    );
    assert_eq!(text("[%3p][%-3p][%03p]", &pointers[..3]), "[  1][2  ][001]");
    let mut memory = host();
    let mut one = |pointer| print(b"%p", &[pointer], 64, &mut memory).unwrap().text;
    assert_eq!(
        one(16),
        one(16),
        "and keep their number from one message to the next"
    );
}

#[test]
fn what_a_kernel_refuses() {
    let cases = [
        ("%o", 1),
        ("%hhd", 1),
        ("%zd", 1),
        ("%.3d", 1),
        ("%*d", 1),
        ("%#x", 1),
        ("%llld", 3),
        ("%", 1),
        ("%5", 2),
        ("%l", 2),
        ("a\x01", 1),
        ("%sx", 2),
        ("%pd", 2),
        ("%pks1", 4),
        ("%5%", 2),
        ("%s\u{e9}", 2),
    ];
    for (fmt, at) in cases {
        let error = refused(fmt, &[0; 4]);
        assert!(
            matches!(error, FormatError::Invalid { at: found, .. } if found == at),
            "{fmt}: {error}"
        );
        assert_eq!(error.errno(), -EINVAL);
    }
    assert!(refused("%d %d", &[1]).to_string().contains("no argument"));
    assert!(refused("", &[0; 13]).to_string().contains("12"));
    assert_eq!(
        text("%d", &[1, 2, 3]),
        "1",
        "arguments too many are ignored"
    );
}

#[test]
fn what_the_simulated_machine_refuses_by_name() {
    for conversion in ["ps", "pS", "pB", "pus", "pi4", "pI6"] {
        let error = refused(&format!("at %{conversion}"), &[0]);
        assert!(
            error
                .to_string()
                .contains(&format!("%{conversion} is not supported")),
            "{error}"
        );
    }
}

#[test]
fn output_is_cut_at_the_limit_and_its_length_known() {
    let cut = print(b"%d and %8d", &[12345, 6], 8, &mut host()).unwrap();
    assert_eq!((cut.text.as_slice(), cut.len), (&b"12345 a"[..], 18));
    let none = print(b"%d", &[1], 0, &mut host()).unwrap();
    assert_eq!((none.text.len(), none.len), (0, 1));
    let wide = print(b"%99999999999999999999999d", &[1], 16, &mut host()).unwrap();
    assert_eq!((wide.text.len(), wide.len), (15, WIDTH_MAX));
}

#[test]
fn arguments_fit_into_512_bytes() {
    let long = std::ffi::CString::new(vec![b'x'; 600]).unwrap();
    let args = [address(&long), 1];
    assert_eq!(text("%s", &args), "x".repeat(511));
    assert_eq!(refused("%s %d", &args).errno(), -ENOSPC);
    assert_eq!(refused("%s %s", &[address(&long); 2]).errno(), -ENOSPC);
    let fits = std::ffi::CString::new(vec![b'x'; 506]).unwrap();
    assert!(text("%s %d", &[address(&fits), 1]).ends_with("x 1"));
    // Numbers are aligned to 4: 2 bytes, 2 of padding, 4, and then 504 leave no room for a character.
    let (one, full) = (c"a", std::ffi::CString::new(vec![b'x'; 503]).unwrap());
    let args = [address(one), 1, address(&full), 0x41];
    assert_eq!(refused("%s %d %s %c", &args).errno(), -ENOSPC);
    let shorter = [args[0], args[1], args[2] + 1, args[3]];
    assert!(text("%s %d %s %c", &shorter).ends_with("x A"));
}

proptest::proptest! {
    #[test]
    fn no_format_panics(fmt in "[%a-zA-Z0-9 .*#+-]{0,20}", arg: u64) {
        let arg = arg & 0xfff;
        if let Ok(formatted) = print(fmt.as_bytes(), &[arg; ARGS_MAX], 64, &mut host()) {
            proptest::prop_assert!(formatted.text.len() <= 63 && formatted.text.len() <= formatted.len);
        }
    }

    #[test]
    fn integers_print_as_everywhere(value: u64) {
        let expected = format!("{}|{}|{:x}|{}", value as i64, value, value, value as i32);
        proptest::prop_assert_eq!(text("%lld|%llu|%llx|%d", &[value; 4]), expected);
    }
}
