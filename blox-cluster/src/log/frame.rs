//! Frames: the unit of synchronization, with separate checksums for head and body.
//!
//! A mark follows each synchronized frame. The mark itself is not synchronized. If a mark exists,
//! an invalid frame before it was damaged later and was not torn during its write.

use crc32c::crc32c;

/// Size of a head in bytes.
pub const HEAD: usize = 24;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records.
    Data,
    /// The frame of this number is on disk.
    Mark,
    /// Snapshot of the persistent state, up to this number.
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
    /// Its kind.
    pub kind: Kind,
    /// Size of the body in bytes.
    pub len: u32,
    /// Its number.
    pub seq: u64,
    /// Checksum of the body.
    pub body: u32,
}

/// Appends a frame to a buffer.
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

/// Reads a head; `None` if there is no valid one.
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

/// Returns the body of the frame at the start of `bytes`; `None` if its checksum is wrong.
pub fn body<'a>(head: &Head, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let body = bytes.get(HEAD..HEAD + head.len as usize)?;
    (crc32c(body) == head.body).then_some(body)
}

/// Appends a record to a body.
pub fn push(record: &[u8], into: &mut Vec<u8>) {
    into.extend((record.len() as u32).to_le_bytes());
    into.extend(record);
}

/// Returns the records of a body; `None` if their lengths do not add up.
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

    /// A frame in the format of existing clusters.
    const FRAME: [u8; 31] = [
        0x42, 0x4c, 0x58, 0x64, 0x07, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0xf8, 0x83, 0x14, 0x55, 0xec, 0xdd, 0x36, 0x8d, 0x03, 0x00, 0x00, 0x00, 0x61, 0x62,
        0x63,
    ];

    #[test]
    fn frame_format_is_fixed() {
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
    fn crc32c_check_value_equals_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
