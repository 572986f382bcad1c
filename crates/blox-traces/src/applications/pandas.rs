/// Parses a decimal number as pandas does by default: at most 17 digits, leading zeros included,
/// and one rounding for each digit. The result differs from the exact value by up to a few parts in
/// 10^14. Returns `None` if the text is no plain decimal number.
pub(crate) fn number(text: &str) -> Option<f64> {
    const DIGITS: usize = 17;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, written) = match digits.split_once(['e', 'E']) {
        Some((digits, power)) => (digits, power.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = whole.bytes().chain(part.bytes());
    if whole.is_empty() && part.is_empty() || !all.clone().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = all
        .take(DIGITS)
        .fold(0.0, |n, digit| n * 10.0 + f64::from(digit - b'0'));
    let left_out = whole.len().saturating_sub(DIGITS) as i32;
    let decimals = part.len().min(DIGITS.saturating_sub(whole.len())) as i32;
    let power = (left_out - decimals).saturating_add(written);
    let ten = |power: i32| format!("1e{power}").parse::<f64>().ok();
    let number = match power {
        309.. => return None,
        1.. => number * ten(power)?,
        -308..=0 => number / ten(-power)?,
        _ => return None,
    };
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn digits_beyond_the_seventeenth_are_lost() {
        assert_eq!(number("2.5"), Some(2.5));
        assert_eq!(number("-12e-1"), Some(-1.2));
        // The leading zero counts as a digit.
        assert_eq!(number("0.12345678901234567"), number("0.1234567890123456"));
        assert_ne!(number("1.2345678901234567"), number("1.234567890123456"));
    }

    #[test]
    fn powers_beyond_all_numbers_are_left_to_others() {
        assert_eq!(number("0.1e-2147483648"), None);
        assert_eq!(number("100000000000000000000e2147483647"), None);
    }

    #[test]
    fn other_texts_are_no_number() {
        for text in ["", ".", "-", "nan", "1.2.3", "1e", "0x10"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
