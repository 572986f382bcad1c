//! Dates and durations in the formats of logs.

use chrono::NaiveDate;

/// Parses a date such as `2017-10-09 07:01:55` to seconds since 1970-01-01 00:00:00.
///
/// Date and time are separated by a space or a `T`. Seconds may have a fraction. Seconds, or the
/// whole time, may be missing. A date with `Z`, `UTC` or an offset such as `+08:00` is converted to
/// universal time; a date without a zone is local time.
pub fn parse_date(text: &str) -> Option<f64> {
    let text = text.trim();
    if !text.is_ascii() {
        return None;
    }
    let (date, rest) = text.split_at_checked(10)?;
    let b = date.as_bytes();
    if b[4] != b[7] || !matches!(b[4], b'-' | b'/') {
        return None;
    }
    let days = days_since_1970(digits(&b[..4])?, digits(&b[5..7])?, digits(&b[8..])?)?;
    let Some(rest) = rest.strip_prefix([' ', 'T']) else {
        return rest.is_empty().then_some(days as f64 * 86_400.0);
    };
    let (clock, zone) = split_zone(rest)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let b = clock.as_bytes();
    let colons = |at: &[usize]| at.iter().all(|&i| b[i] == b':');
    let (hour, minute, second) = match b.len() {
        5 if colons(&[2]) => (digits(&b[..2])?, digits(&b[3..])?, 0),
        8 if colons(&[2, 5]) => (digits(&b[..2])?, digits(&b[3..5])?, digits(&b[6..])?),
        _ => return None,
    };
    // A leap second counts as the first second of the next minute.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let whole = days * 86_400 + hour * 3600 + minute * 60 + second - zone;
    Some(whole as f64 + parse_fraction(fraction)?)
}

/// Splits off the time zone, as seconds ahead of universal time.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    for suffix in ["Z", " UTC", "UTC", " GMT"] {
        if let Some(clock) = text.strip_suffix(suffix) {
            return Some((clock, 0));
        }
    }
    let Some(at) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, zone) = text.split_at(at);
    let b = zone.as_bytes();
    let (hours, minutes) = match b.len() {
        3 => (digits(&b[1..])?, 0),
        5 => (digits(&b[1..3])?, digits(&b[3..])?),
        6 if b[3] == b':' => (digits(&b[1..3])?, digits(&b[4..])?),
        _ => return None,
    };
    if hours > 14 || minutes > 59 {
        return None;
    }
    let ahead = hours * 3600 + minutes * 60;
    Some((clock.trim_end(), if b[0] == b'-' { -ahead } else { ahead }))
}

/// Parses the digits after a decimal point.
fn parse_fraction(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    digits(text.as_bytes())?;
    format!("0.{text}").parse().ok()
}

fn digits(text: &[u8]) -> Option<i64> {
    let longest = text.len() <= 15 && !text.is_empty();
    longest.then_some(())?;
    text.iter().try_fold(0, |n, c| {
        c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0'))
    })
}

/// Returns the days from 1970-01-01 to a date; `None` if there is no such day.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
    Some(i64::from(date.to_epoch_days()))
}

/// Parses `[DAYS-]HOURS:MINUTES:SECONDS` to seconds. Seconds may have a fraction. Hours may be
/// missing: `05:30` is five and a half minutes.
pub(crate) fn parse_elapsed(text: &str) -> Option<f64> {
    let text = text.trim();
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days.as_bytes())?, clock),
        None => (0, text),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let parts: Vec<_> = clock.split(':').collect();
    let whole = match *parts.as_slice() {
        [h, m, s] => {
            digits(h.as_bytes())? * 3600 + digits(m.as_bytes())? * 60 + digits(s.as_bytes())?
        }
        [m, s] if days == 0 => digits(m.as_bytes())? * 60 + digits(s.as_bytes())?,
        _ => return None,
    };
    Some((days as f64) * 86_400.0 + whole as f64 + parse_fraction(fraction)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01 00:00:00", Some(0.0)),
            ("2000-02-29 12:00:00", Some(951_825_600.0)),
            ("2017-10-09 07:01:55", Some(1_507_532_515.0)),
            ("2017-10-09T07:01:55", Some(1_507_532_515.0)),
            ("2017/10/09 07:01", Some(1_507_532_460.0)),
            (" 2017-10-09 ", Some(1_507_507_200.0)),
            ("2017-10-09T07:01:55.25Z", Some(1_507_532_515.25)),
            ("2017-10-09T15:01:55+08:00", Some(1_507_532_515.0)),
            ("2017-10-09 03:01:55 -0400", Some(1_507_532_515.0)),
            ("2017-10-09 07:01:55 UTC", Some(1_507_532_515.0)),
            ("0001-01-01 00:00:00", Some(-62_135_596_800.0)),
            ("2100-02-29 00:00:00", None),
            ("2017-10-09 24:00:00", None),
            ("2017-10/09 07:01:55", None),
            ("2017-1-09 07:01:555", None),
            ("2017-10-09 07:01:55.x", None),
            ("2017-10-09 07:01:55+1", None),
            ("2017-10-09x", None),
            ("２017-10-09 07:01", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text), seconds, "{text}");
        }
    }

    #[test]
    fn lengths_have_days_or_not() {
        for (text, seconds) in [
            ("00:00:07", Some(7.0)),
            ("05:30", Some(330.0)),
            ("26:00:00", Some(93_600.0)),
            ("2-01:00:05", Some(176_405.0)),
            ("00:00:01.5", Some(1.5)),
            ("1-05:30", None),
            ("7", None),
            ("-00:00:07", None),
            ("00:-1:07", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(parse_elapsed(text), seconds, "{text}");
        }
    }
}
