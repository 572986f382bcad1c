//! Frames: what one synchronisation brings to the disk, with a checksum of the
//! head and one of the body.
//!
//! After each synchronisation a mark follows the frame. It is not waited for;
//! where it survives, a frame before it that does not check was damaged later
//! and not torn while it was written.

use crc32c::crc32c;

/// Bytes of a head.
pub const HEAD: usize = 24;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records.
    Data,
    /// The frame of this number is on the disk.
    Mark,
    /// All that lasts, up to this number.
    Snapshot,
}

impl Kind {
    const fn code(self) -> u32 {
        match self {
            Kind::Data => u32::from_le_bytes(*b"BLXd"),
            Kind::Mark => u32::from_le_bytes(*b"BLXm"),
            Kind::Snapshot => u32::from_le_bytes(*b"BLXs"),
        }
    }

    fn of(code: u32) -> Option<Self> {
        [Kind::Data, Kind::Mark, Kind::Snapshot]
            .into_iter()
            .find(|k| k.code() == code)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Bytes of its body.
    pub len: u32,
    /// Its number.
    pub seq: u64,
    /// The body's checksum.
    pub body: u32,
}

/// Writes a frame.
pub fn write(kind: Kind, seq: u64, body: &[u8], into: &mut Vec<u8>) {
    let from = into.len();
    into.extend(kind.code().to_le_bytes());
    into.extend((body.len() as u32).to_le_bytes());
    into.extend(seq.to_le_bytes());
    into.extend(crc32c(body).to_le_bytes());
    let head = crc32c(&into[from..]);
    into.extend(head.to_le_bytes());
    into.extend(body);
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

/// Reads a head; `None` if there is none that checks.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let seq = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let found = Head {
        kind: Kind::of(u32_at(bytes, 0)?)?,
        len: u32_at(bytes, 4)?,
        seq,
        body: u32_at(bytes, 16)?,
    };
    (u32_at(bytes, 20)? == crc32c(&bytes[..20])).then_some(found)
}

/// The body of the frame at the beginning of `bytes`; `None` if it does not check.
pub fn body<'a>(head: &Head, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let body = bytes.get(HEAD..HEAD + head.len as usize)?;
    (crc32c(body) == head.body).then_some(body)
}

/// Adds a record to a body.
pub fn push(record: &[u8], into: &mut Vec<u8>) {
    into.extend((record.len() as u32).to_le_bytes());
    into.extend(record);
}

/// The records of a body; `None` if their lengths do not add up.
pub fn records(mut body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let len = u32_at(body, 0)? as usize;
        all.push(body.get(4..4 + len)?.to_vec());
        body = &body[4 + len..];
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as it is on the disks of clusters that exist.
    const FRAME: [u8; 31] = [
        0x42, 0x4c, 0x58, 0x64, 0x07, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0xf8, 0x83, 0x14, 0x55, 0xec, 0xdd, 0x36, 0x8d, 0x03, 0x00, 0x00, 0x00, 0x61, 0x62,
        0x63,
    ];

    #[test]
    fn frame_format_stays_as_it_is() {
        let (mut body_bytes, mut frame) = (Vec::new(), Vec::new());
        push(b"abc", &mut body_bytes);
        write(Kind::Data, 7, &body_bytes, &mut frame);
        assert_eq!(frame, FRAME);
        let found = head(&FRAME).unwrap();
        assert_eq!((found.kind, found.len, found.seq), (Kind::Data, 7, 7));
        let found = body(&found, &FRAME).and_then(records);
        assert_eq!(found, Some(vec![b"abc".to_vec()]));
    }

    #[test]
    fn crc32c_check_value_is_that_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
