//! The bytes of an input: plain or gzip, from a file or a pipe.

#[cfg(feature = "parquet")]
use blox_table::CsvTable;
use blox_workloads::WorkloadError;
use flate2::bufread::GzDecoder;
use hmac_sha256::Hash;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Returns the SHA-256 of a file in hexadecimal, equal to the output of `sha256sum`. For the
/// manifest of a run.
///
/// # Errors
/// If the file cannot be read, or is a pipe whose content is gone once read.
pub fn fingerprint(path: impl AsRef<Path>) -> Result<String, WorkloadError> {
    let path = path.as_ref();
    let reading = |e| WorkloadError::file(path, e);
    let file = File::open(path).map_err(reading)?;
    let meta = file.metadata().map_err(reading)?;
    // A pipe can be read only once; the manifest would hold the hash of nothing.
    if meta.is_dir() {
        return Err(WorkloadError::Directory { path: path.into() });
    }
    if !meta.is_file() {
        return Err(WorkloadError::NotAFile { path: path.into() });
    }
    hash(file).map_err(reading)
}

pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, WorkloadError> {
    let io = |e| WorkloadError::file(dir, e);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        all.push(entry.map_err(io)?.path());
    }
    all.sort();
    Ok(all)
}

/// Converts an error of reading text that may be compressed.
pub(crate) fn reading_error(path: &Path, source: io::Error) -> WorkloadError {
    let path = path.to_owned();
    match source.kind() {
        // A plain file just ends. Only the decoder reports missing or invalid bytes.
        io::ErrorKind::UnexpectedEof => WorkloadError::TruncatedGzip { path },
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            WorkloadError::DamagedGzip { path, source }
        }
        _ => WorkloadError::file(&path, source),
    }
}

fn hash(mut from: impl Read) -> io::Result<String> {
    let mut hash = Hash::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Text of an input, decompressed, without a byte order mark.
pub type Text = Box<dyn BufRead + Send>;

/// An input that can be read from its start more than once.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    place: Place,
}

/// Location of the bytes.
#[derive(Clone, Debug)]
enum Place {
    File,
    Memory(Arc<[u8]>),
    /// The content of a pipe, in a temporary file that is deleted with its last reader.
    Spool(Arc<NamedTempFile>),
    /// A table that is not text: its place, and its rows as CSV.
    #[cfg(feature = "parquet")]
    Converted(Box<Place>, Arc<NamedTempFile>),
}

impl Source {
    /// Opens the file at `path`, which must exist and not be empty.
    pub fn at(path: &Path) -> Result<Self, WorkloadError> {
        let meta = std::fs::metadata(path).map_err(|e| WorkloadError::file(path, e))?;
        if meta.is_dir() {
            return Err(WorkloadError::Directory { path: path.into() });
        }
        let place = if meta.is_file() {
            Place::File
        } else if is_device(&meta) {
            return Err(WorkloadError::NotAFile { path: path.into() });
        } else {
            Place::Spool(Arc::new(spool(path)?))
        };
        let source = Source {
            path: path.into(),
            place,
        };
        #[cfg(feature = "parquet")]
        let source = source.converted()?;
        source.not_empty()
    }

    /// Converts a Parquet table into CSV, which all readers take.
    #[cfg(feature = "parquet")]
    fn converted(self) -> Result<Self, WorkloadError> {
        let reading = |e| WorkloadError::file(&self.path, e);
        let mut start = self.raw()?;
        if !peek(&mut *start)
            .map_err(reading)?
            .starts_with(blox_parquet::MAGIC)
        {
            return Ok(self);
        }
        let file = match &self.place {
            Place::Spool(spool) => spool.reopen().map_err(reading)?,
            _ => File::open(&self.path).map_err(reading)?,
        };
        let text = NamedTempFile::new().map_err(reading)?;
        let out = io::BufWriter::new(text.reopen().map_err(reading)?);
        blox_parquet::read(file, &mut CsvTable::new(out)).map_err(reading)?;
        Ok(Source {
            place: Place::Converted(Box::new(self.place), Arc::new(text)),
            path: self.path,
        })
    }

    /// Wraps bytes in memory, which must not be empty. The name is for messages.
    pub fn of(name: &str, bytes: &[u8]) -> Result<Self, WorkloadError> {
        Source {
            path: name.into(),
            place: Place::Memory(Arc::from(bytes)),
        }
        .not_empty()
    }

    fn not_empty(self) -> Result<Self, WorkloadError> {
        let start = |text: &mut Text| peek(&mut **text).map(<[u8]>::is_empty);
        let empty = start(&mut self.text()?).map_err(|e| reading_error(&self.path, e))?;
        if empty {
            return Err(WorkloadError::Empty { path: self.path });
        }
        Ok(self)
    }

    /// Returns the SHA-256 of the bytes as received, in hexadecimal.
    pub fn fingerprint(&self) -> Result<String, WorkloadError> {
        let reading = |e| WorkloadError::file(&self.path, e);
        let place = match &self.place {
            #[cfg(feature = "parquet")]
            Place::Converted(original, _) => original,
            place => place,
        };
        match place {
            #[cfg(feature = "parquet")]
            Place::Converted(..) => fingerprint(&self.path),
            Place::File => fingerprint(&self.path),
            Place::Memory(bytes) => hash(&bytes[..]).map_err(reading),
            Place::Spool(spool) => hash(spool.reopen().map_err(reading)?).map_err(reading),
        }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the nearest file with one of these names, in the folder of this file or a folder
    /// above it.
    pub fn nearest(&self, names: &[&str]) -> Option<PathBuf> {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let folders = path.ancestors().skip(1);
        let mut places = folders.flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let found = places.find(|place| place.is_file())?;
        // A path below the working directory is shown relative to it, as the trace's own path is.
        let below = match (self.path.is_relative(), std::env::current_dir()) {
            (true, Ok(here)) => found.strip_prefix(here).ok().map(Path::to_owned),
            _ => None,
        };
        Some(below.unwrap_or(found))
    }

    /// Returns the text from its start.
    pub fn text(&self) -> Result<Text, WorkloadError> {
        let reading = |e| reading_error(&self.path, e);
        let mut raw = self.raw()?;
        let mut text: Text = if peek(&mut *raw).map_err(reading)?.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(
                BUFFER,
                Members(Some(GzDecoder::new(raw))),
            ))
        } else {
            raw
        };
        if peek(&mut *text)
            .map_err(reading)?
            .starts_with(&BYTE_ORDER_MARK)
        {
            text.consume(BYTE_ORDER_MARK.len());
        }
        Ok(text)
    }

    /// Returns the bytes from their start, without decompression.
    fn raw(&self) -> Result<Text, WorkloadError> {
        let reading = |e| reading_error(&self.path, e);
        Ok(match &self.place {
            Place::Memory(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Place::File => {
                let file =
                    File::open(&self.path).map_err(|e| WorkloadError::file(&self.path, e))?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
            Place::Spool(spool) => {
                let file = spool.reopen().map_err(reading)?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
            #[cfg(feature = "parquet")]
            Place::Converted(_, text) => {
                let file = text.reopen().map_err(reading)?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
        })
    }
}

/// Decompresses the members of a gzip file one after the other; `None` after the last.
struct Members(Option<GzDecoder<Text>>);

impl Read for Members {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let n = member.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            let Some(mut raw) = self.0.take().map(GzDecoder::into_inner) else {
                break;
            };
            match peek(&mut *raw)?.first() {
                None => break,
                Some(byte) if *byte == GZIP_MAGIC[0] => self.0 = Some(GzDecoder::new(raw)),
                Some(_) => only_zeros(&mut *raw)?,
            }
        }
        Ok(0)
    }
}

/// Skips trailing zeros, as gzip does: tapes and some tools fill their last block with zeros.
fn only_zeros(rest: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let next = peek(rest)?;
        let n = next.len();
        if next.iter().any(|b| *b != 0) {
            let what = "other bytes follow the end of the gzip data, expected nothing, zeros or more gzip data";
            return Err(io::Error::other(what));
        }
        if n == 0 {
            return Ok(());
        }
        rest.consume(n);
    }
}

/// Copies a pipe into a file, because a trace is read twice and a pipe can be read only once. The
/// bytes are kept as received: gzip stays gzip.
fn spool(path: &Path) -> Result<NamedTempFile, WorkloadError> {
    let mut pipe = File::open(path).map_err(|e| WorkloadError::file(path, e))?;
    let mut copy = || -> io::Result<NamedTempFile> {
        let mut file = NamedTempFile::new()?;
        io::copy(&mut pipe, &mut file)?;
        Ok(file)
    };
    copy().map_err(|source| WorkloadError::Io {
        path: path.into(),
        source,
    })
}

/// Returns true for devices, which may never end.
#[cfg(unix)]
fn is_device(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_char_device() || meta.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &Metadata) -> bool {
    false
}

/// Largest size of a row in bytes. No trace has rows near this size. Without a limit, a file
/// without line ends would be read into memory as a whole.
pub(crate) const LONGEST_ROW: usize = 1 << 24;

/// Returns the error of a row above this size.
pub(crate) fn too_long(path: &Path, line: u64) -> WorkloadError {
    let what = format!("a row is longer than {LONGEST_ROW} bytes, expected its end before");
    WorkloadError::unreadable(path, line, what)
}

const BUFFER: usize = 1 << 16;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns the next bytes without consuming them; empty at the end.
pub(crate) fn peek(text: &mut dyn BufRead) -> io::Result<&[u8]> {
    loop {
        match text.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(_) => break,
        }
    }
    text.fill_buf()
}

/// The first line that is not blank, at most the start of it.
pub(crate) fn first_line(source: &Source) -> Result<String, WorkloadError> {
    let line = first_lines(source)?.into_iter().next().unwrap_or_default();
    Ok(line)
}

/// Largest size of the start of a file from which its format is detected.
const SOME: usize = 1 << 16;
const SOME_LINES: usize = 100;

/// The first lines from one that is not blank, at most some of them, each at most its start.
pub(crate) fn first_lines(source: &Source) -> Result<Vec<String>, WorkloadError> {
    let mut start = Vec::new();
    source
        .text()?
        .take(SOME as u64)
        .read_to_end(&mut start)
        .map_err(|e| reading_error(source.path(), e))?;
    let text = String::from_utf8_lossy(&start);
    let mut lines: Vec<&str> = text.trim_start().lines().collect();
    if start.len() == SOME && lines.len() > 1 {
        // The last line may be cut.
        lines.pop();
    }
    let lines = lines.into_iter().map(|line| line.trim().to_owned());
    Ok(lines.take(SOME_LINES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gz(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, WorkloadError> {
        let mut text = String::new();
        Source::of("x.csv", bytes)?
            .text()?
            .read_to_string(&mut text)
            .map_err(|e| reading_error(Path::new("x.csv"), e))?;
        Ok(text)
    }

    #[test]
    fn gzip_is_found_by_magic_bytes_and_may_have_members() {
        assert_eq!(read(b"plain").unwrap(), "plain");
        assert_eq!(read("\u{feff}marked".as_bytes()).unwrap(), "marked");
        let members = [gz("\u{feff}one,"), gz("two")].concat();
        assert_eq!(read(&members).unwrap(), "one,two");
    }

    #[test]
    fn zeros_may_follow_gzip_data_and_nothing_else() {
        let followed = |by: &[u8]| read(&[&gz("one,"), &gz("two")[..], by].concat());
        for zeros in [1, 9, 512, 1 << 17] {
            assert_eq!(followed(&vec![0; zeros]).unwrap(), "one,two");
        }
        for by in [&b"x"[..], b"some text", b"\0\0x", b"\0\x1f\x8b"] {
            assert_eq!(
                followed(by).unwrap_err().to_string(),
                "x.csv: cannot be read: other bytes follow the end of the gzip data, expected \
                 nothing, zeros or more gzip data"
            );
        }
        assert_eq!(
            followed(&gz("three")[..9]).unwrap_err().to_string(),
            "x.csv: the gzip data ends too early, the file is truncated"
        );
    }

    #[test]
    fn truncated_and_damaged_gzip_have_different_errors() {
        let whole = gz("some text that is long enough");
        for end in [2, 12, whole.len() - 1] {
            assert_eq!(
                read(&whole[..end]).unwrap_err().to_string(),
                "x.csv: the gzip data ends too early, the file is truncated",
                "{end}"
            );
        }
        let mut damaged = whole.clone();
        let at = whole.len() - 6;
        damaged[at] ^= 1;
        let error = read(&damaged).unwrap_err().to_string();
        assert!(
            error.starts_with("x.csv: the gzip data is damaged: "),
            "{error}"
        );
    }

    #[test]
    fn a_path_without_content_is_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.csv");
        std::fs::write(&empty, "").unwrap();
        let gone = dir.path().join("gone.csv");
        let message = |p: &Path| Source::at(p).unwrap_err().to_string();
        let expected = "no such file, expected an existing file";
        assert_eq!(message(&gone), format!("{}: {expected}", gone.display()));
        assert_eq!(
            message(&empty),
            format!(
                "{}: the file is empty, expected a header or a job",
                empty.display()
            )
        );
        assert_eq!(
            message(dir.path()),
            format!(
                "{}: is a directory, expected a workload file",
                dir.path().display()
            )
        );
        std::fs::write(&empty, gz("")).unwrap();
        assert!(matches!(
            Source::at(&empty),
            Err(WorkloadError::Empty { .. })
        ));
    }

    #[test]
    fn a_fingerprint_is_what_sha256sum_prints() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(
            fingerprint(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(matches!(
            fingerprint(dir.path().join("gone")),
            Err(WorkloadError::Missing { .. })
        ));
        assert!(matches!(
            fingerprint(dir.path()),
            Err(WorkloadError::Directory { .. })
        ));
    }
}
