//! Keys and certificates in one private file, which is replaced as a whole.

use super::{IdentityError, Principal};
use crate::private;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Creates a key and a request for its certificate, both as PEM. The scheduler chooses name and
/// role.
///
/// # Errors
/// The system has no random numbers.
pub fn request() -> Result<(String, String), IdentityError> {
    let key = KeyPair::generate().map_err(IdentityError::invalid)?;
    let params = CertificateParams::default();
    let request = params.serialize_request(&key);
    let request = request.and_then(|request| request.pem());
    Ok((
        key.serialize_pem(),
        request.map_err(IdentityError::invalid)?,
    ))
}

/// A key, its certificate, and the certificate of the authority.
#[derive(Debug)]
pub struct IdentityFile {
    /// Its own certificate, then the authority's certificate.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
    /// The holder, if the certificate names one. The scheduler's own names none.
    pub principal: Option<Principal>,
}

impl IdentityFile {
    /// Reads a file that is private to its owner, this user or root.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or it has no key or no two certificates.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let wrong = |what: &str| IdentityError::Invalid(format!("{}: {what}", path.display()));
        let (text, _) = private::read(path).map_err(IdentityError::io(path))?;
        let text = text.as_bytes();
        let key = PrivateKeyDer::from_pem_slice(text);
        let key = key.map_err(|_| wrong("found no private key in PEM"))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let chain = chain.map_err(|_| wrong("a certificate is not in PEM"))?;
        if chain.len() != 2 {
            let found = chain.len();
            return Err(wrong(&format!(
                "found {found} certificates, expected its own and that of the authority"
            )));
        }
        let principal = chain.first().and_then(|own| Principal::of(own).ok());
        Ok(IdentityFile {
            chain,
            key,
            principal,
        })
    }

    /// Writes a key and its certificates. An existing file is replaced as a whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(path: &Path, key: &str, chain: &str) -> Result<(), IdentityError> {
        replace(path, format!("{key}{chain}").as_bytes())
    }

    /// Returns the certificate of the authority.
    pub fn authority(&self) -> &[u8] {
        self.chain.last().map_or(&[], |last| last.as_ref())
    }

    /// Returns the time at which the certificate has lived for two thirds of its life, in seconds of
    /// Unix time.
    pub fn renew_at_s(&self) -> u64 {
        let Some(own) = self.chain.first() else {
            return 0;
        };
        let parsed = x509_parser::prelude::parse_x509_certificate(own);
        parsed.map_or(0, |(_, own)| {
            let (from, to) = (own.validity().not_before, own.validity().not_after);
            let (from, to) = (from.timestamp(), to.timestamp());
            u64::try_from(from + (to - from) * 2 / 3).unwrap_or(0)
        })
    }
}

/// Replaces a private file as a whole. It is on disk when the function returns.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    let new = path.with_extension("new");
    let io = || IdentityError::io(path);
    let written = (|| {
        // An old file may have another mode.
        if new.exists() {
            fs::remove_file(&new)?;
        }
        let mut file = private::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    })();
    written.map_err(io())
}
