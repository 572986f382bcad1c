//! Error messages without their codes, for tests of the sentences.

/// Standard error as text, without ` [E0000]` at the ends of lines.
pub fn without(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    let plain = line.trim_end_matches('\n');
    let sentence = plain.rsplit_once(" [E").filter(|(_, code)| {
        let number = code.strip_suffix(']');
        number.is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_digit()))
    });
    match sentence {
        Some((sentence, _)) => line.replacen(plain, sentence, 1),
        None => line.to_owned(),
    }
}
