//! The authority of a cluster: a folder with its key, the certificate of the scheduler, tokens to
//! join, and revoked certificates.

use super::pem::replace;
use super::tokens::{Invitation, Tokens};
use super::{IdentityError, IdentityFile, Principal, Role, check_name, digest, unix_ms};
use crate::private;
use blox_core::suggest::nearest;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use time::OffsetDateTime;

/// Life of a certificate in days.
pub const DAYS: u64 = 90;
/// Life of the authority in days.
const AUTHORITY_DAYS: u64 = 3_650;
/// Certificates are valid this long before their issue, since clocks differ.
const BEFORE_S: u64 = 300;
const DAY_S: u64 = 86_400;

/// Certificates that are refused although they are valid.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Denied {
    /// Serial numbers.
    #[serde(default)]
    serials: BTreeSet<String>,
    /// Times in milliseconds of Unix time, by name. Certificates of the name that were issued until
    /// then are refused.
    #[serde(default)]
    names: BTreeMap<String, u64>,
}

/// Result of a revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The name has a certificate or a token, or the text is a serial number.
    Known,
    /// The authority knows no such name. A similar name, if there is one.
    Unknown(Option<String>),
}

/// State of an authority that changes.
#[derive(Default)]
struct Lists {
    tokens: Tokens,
    denied: Denied,
    /// Time of the last issue, so that serial numbers ascend.
    last_ms: u64,
}

/// An authority.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate as PEM.
    pem: String,
    fingerprint: String,
    lists: Mutex<Lists>,
    /// Life of certificates in seconds.
    life_s: u64,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.dir.display())
    }
}

fn dates(params: &mut CertificateParams, from_s: u64, to_s: u64) {
    let date = |s: u64| OffsetDateTime::from_unix_timestamp(i64::try_from(s).unwrap_or(0));
    let epoch = OffsetDateTime::UNIX_EPOCH;
    params.not_before = date(from_s).unwrap_or(epoch);
    params.not_after = date(to_s).unwrap_or(epoch);
}

impl Authority {
    /// Creates an authority in a new folder, with the certificates of a scheduler of these host
    /// names and addresses, and of a first admin, in `admin.pem`.
    ///
    /// # Errors
    /// The folder has an authority already, or a file cannot be written.
    pub fn create(dir: &Path, hosts: &[String], admin: &str) -> Result<Self, IdentityError> {
        check_name(admin)?;
        private::folder(dir).map_err(IdentityError::io(dir))?;
        let key_path = dir.join("authority.key");
        if key_path.exists() {
            return Err(IdentityError::Invalid(format!(
                "{}: there is an authority already, expected a new folder",
                dir.display()
            )));
        }
        let key = KeyPair::generate().map_err(IdentityError::invalid)?;
        let mut params = CertificateParams::default();
        let now = unix_ms() / 1000;
        dates(&mut params, now - BEFORE_S, now + AUTHORITY_DAYS * DAY_S);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "blox authority");
        let certificate = params.self_signed(&key).map_err(IdentityError::invalid)?;
        // The scheduler finds the names again when it renews its certificate.
        let hosts = serde_json::to_vec(hosts).map_err(IdentityError::invalid)?;
        replace(&dir.join("hosts.json"), &hosts)?;
        replace(&dir.join("authority.pem"), certificate.pem().as_bytes())?;
        // The folder counts as complete once it has the key.
        replace(&key_path, key.serialize_pem().as_bytes())?;
        let authority = Self::open(dir)?;
        authority.renew_scheduler()?;
        authority.issue_file(&dir.join("admin.pem"), admin, Role::Admin)?;
        Ok(authority)
    }

    /// Opens the authority of a folder.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        private::folder(dir).map_err(IdentityError::io(dir))?;
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).map_err(IdentityError::io(&path))
        };
        let pem = read("authority.pem")?;
        let key = KeyPair::from_pem(&read("authority.key")?).map_err(IdentityError::invalid)?;
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(IdentityError::invalid)?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| IdentityError::invalid("authority.pem is not in PEM"))?;
        let list = |name: &str| match fs::read(dir.join(name)) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(b"{}".to_vec()),
            Err(error) => Err(IdentityError::io(&dir.join(name))(error)),
        };
        let wrong = |name: &'static str| {
            move |e: serde_json::Error| IdentityError::Invalid(format!("{name}: {e}"))
        };
        let tokens = serde_json::from_slice(&list("tokens.json")?).map_err(wrong("tokens.json"))?;
        let denied = serde_json::from_slice(&list("denied.json")?).map_err(wrong("denied.json"))?;
        Ok(Authority {
            dir: dir.to_owned(),
            issuer,
            fingerprint: digest(&der),
            pem,
            lists: Mutex::new(Lists {
                tokens,
                denied,
                last_ms: 0,
            }),
            life_s: DAYS * DAY_S,
        })
    }

    /// Issues certificates that are valid for this time.
    #[must_use]
    pub fn with_life(mut self, seconds: u64) -> Self {
        self.life_s = seconds;
        self
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the digest of the authority's certificate, by which clients recognize it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the file with key and certificate of the scheduler.
    pub fn scheduler_file(&self) -> PathBuf {
        self.dir.join("scheduler.pem")
    }

    fn serial(&self) -> SerialNumber {
        let mut lists = self.lists();
        lists.last_ms = unix_ms().max(lists.last_ms + 1);
        let time = lists.last_ms.to_be_bytes();
        let random = crate::shell::token::random().unwrap_or_default();
        let random = random.as_bytes().iter().take(7).copied();
        // A number that begins with zeros would lose them.
        let all: Vec<u8> = [1].into_iter().chain(time).chain(random).collect();
        SerialNumber::from(all)
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::default();
        let now = unix_ms() / 1000;
        // A short life must not have ended before it began.
        let before = BEFORE_S.min(self.life_s / 4);
        dates(&mut params, now - before, now + self.life_s);
        params.serial_number = Some(self.serial());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params
    }

    /// Writes a new key and certificate of the scheduler.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn renew_scheduler(&self) -> Result<(), IdentityError> {
        let path = self.dir.join("hosts.json");
        let hosts = fs::read(&path).map_err(IdentityError::io(&path))?;
        let hosts: Vec<String> =
            serde_json::from_slice(&hosts).map_err(|e| IdentityError::Invalid(e.to_string()))?;
        let named = CertificateParams::new(hosts).map_err(IdentityError::invalid)?;
        let mut params = self.params();
        params.subject_alt_names = named.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params
            .distinguished_name
            .push(DnType::CommonName, "blox scheduler");
        let key = KeyPair::generate().map_err(IdentityError::invalid)?;
        let signed = params.signed_by(&key, &self.issuer);
        let signed = signed.map_err(IdentityError::invalid)?;
        let chain = format!("{}{}", signed.pem(), self.pem);
        IdentityFile::write(&self.scheduler_file(), &key.serialize_pem(), &chain)
    }

    /// Renews the certificate of the scheduler if it has lived for two thirds of its life. Returns
    /// whether it was renewed.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn keep_scheduler(&self) -> Result<bool, IdentityError> {
        let file = IdentityFile::read(&self.scheduler_file())?;
        let due = unix_ms() / 1000 >= file.renew_at_s();
        if due {
            self.renew_scheduler()?;
        }
        Ok(due)
    }

    /// Writes a new key and its certificate to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn issue_file(&self, path: &Path, name: &str, role: Role) -> Result<(), IdentityError> {
        let (key, request) = super::request()?;
        IdentityFile::write(path, &key, &self.issue(&request, name, role)?)
    }

    /// Signs a request. Returns its certificate and the authority's certificate as PEM.
    ///
    /// # Errors
    /// The request or the name is invalid.
    pub fn issue(&self, request: &str, name: &str, role: Role) -> Result<String, IdentityError> {
        check_name(name)?;
        // Only the key of the request counts.
        let request = CertificateSigningRequestParams::from_pem(request);
        let request = request.map_err(IdentityError::invalid)?;
        let mut params = self.params();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let subject = &mut params.distinguished_name;
        *subject = rcgen::DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject.push(DnType::OrganizationalUnitName, role.as_str());
        let signed = params.signed_by(&request.public_key, &self.issuer);
        let signed = signed.map_err(IdentityError::invalid)?;
        let mut lists = self.lists();
        if lists.tokens.name(name) {
            self.save_tokens(&lists)?;
        }
        Ok(format!("{}{}", signed.pem(), self.pem))
    }

    /// Creates a token with which one user or node joins within `seconds`. Its secret is in no file.
    ///
    /// # Errors
    /// The name is missing or invalid, or the list of tokens cannot be written.
    pub fn invite(
        &self,
        role: Role,
        name: Option<&str>,
        seconds: u64,
    ) -> Result<Invitation, IdentityError> {
        match name {
            Some(name) => check_name(name)?,
            None if role != Role::Node => {
                return Err(IdentityError::Invalid(format!(
                    "name is missing: a token of a {role} has a name"
                )));
            }
            None => {}
        }
        let secret = crate::shell::token::random().map_err(IdentityError::invalid)?;
        let mut lists = self.lists();
        lists
            .tokens
            .add(&secret, role, name, unix_ms() / 1000 + seconds);
        self.save_tokens(&lists)?;
        Ok(Invitation {
            secret,
            fingerprint: self.fingerprint.clone(),
        })
    }

    /// Takes a token, which is used up from then on, and returns role and name of its holder. A node
    /// whose token has no name gets the name `wanted`, or else `host`.
    ///
    /// # Errors
    /// The token is unknown, used or expired, or is for another name.
    pub fn take(
        &self,
        secret: &str,
        wanted: &str,
        host: &str,
    ) -> Result<(Role, String), IdentityError> {
        let mut lists = self.lists();
        let taken = lists.tokens.take(secret, wanted, host, unix_ms() / 1000)?;
        // A token counts as used before its certificate leaves.
        self.save_tokens(&lists)?;
        Ok(taken)
    }

    fn save_tokens(&self, lists: &Lists) -> Result<(), IdentityError> {
        let text = serde_json::to_vec_pretty(&lists.tokens).map_err(IdentityError::invalid)?;
        replace(&self.dir.join("tokens.json"), &text)
    }

    /// Refuses a serial number, or all certificates of a name that were issued until now, and unused
    /// tokens of the name. An unknown name is refused, too, since lists of earlier versions lack names.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn revoke(&self, name_or_serial: &str) -> Result<Revoked, IdentityError> {
        check_name(name_or_serial)?;
        let mut lists = self.lists();
        let now = unix_ms().max(lists.last_ms);
        let is_serial =
            name_or_serial.len() == 32 && name_or_serial.bytes().all(|b| b.is_ascii_hexdigit());
        match is_serial {
            true => drop(lists.denied.serials.insert(name_or_serial.to_owned())),
            false => drop(lists.denied.names.insert(name_or_serial.to_owned(), now)),
        }
        lists.last_ms = now;
        let text = serde_json::to_vec_pretty(&lists.denied).map_err(IdentityError::invalid)?;
        replace(&self.dir.join("denied.json"), &text)?;
        let is_known = lists.tokens.names().any(|name| name == name_or_serial);
        let revoked = match is_serial || is_known {
            true => Revoked::Known,
            false => {
                let near = nearest(name_or_serial, lists.tokens.names());
                Revoked::Unknown(near.map(str::to_owned))
            }
        };
        lists.tokens.forget(name_or_serial);
        if is_known {
            // A repeated revocation knows it, too.
            lists.tokens.name(name_or_serial);
        }
        self.save_tokens(&lists)?;
        Ok(revoked)
    }

    /// Returns why a certificate is refused, if it is.
    pub fn refuses(&self, who: &Principal) -> Option<&'static str> {
        if unix_ms() / 1000 > who.until_s {
            return Some("the certificate has expired");
        }
        let lists = self.lists();
        let until = lists.denied.names.get(&who.name);
        let named = until.is_some_and(|until| who.issued_ms <= *until);
        (named || lists.denied.serials.contains(&who.serial))
            .then_some("the certificate is revoked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(dir: &Path) -> Authority {
        Authority::create(dir, &["localhost".to_owned()], "ada").unwrap()
    }

    fn holder(chain: &str) -> Principal {
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        Principal::of(&der).unwrap()
    }

    #[test]
    fn new_authority_has_private_files_and_an_admin() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        authority(&path);
        for entry in fs::read_dir(&path).unwrap() {
            let meta = entry.unwrap().metadata().unwrap();
            assert_eq!(meta.mode() & 0o777, 0o600);
        }
        let admin = IdentityFile::read(&path.join("admin.pem")).unwrap();
        let admin = admin.principal.unwrap();
        assert_eq!((&*admin.name, admin.role), ("ada", Role::Admin));
        let again = Authority::create(&path, &[], "ada").unwrap_err();
        assert!(again.to_string().contains("expected a new folder"));
        let nameless = IdentityFile::read(&path.join("scheduler.pem")).unwrap();
        assert_eq!(nameless.principal, None);
    }

    #[test]
    fn a_token_works_once_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        let token = authority(&path)
            .invite(Role::User, Some("bob"), 60)
            .unwrap();
        let stored = fs::read_to_string(path.join("tokens.json")).unwrap();
        assert!(!stored.contains(&token.secret));
        let after = Authority::open(&path).unwrap();
        let taken = after.take(&token.secret, "", "").unwrap();
        assert_eq!(taken, (Role::User, "bob".to_owned()));
        for authority in [&after, &Authority::open(&path).unwrap()] {
            let error = authority.take(&token.secret, "", "").unwrap_err();
            assert_eq!(error.to_string(), "the token to join was used before");
        }
        let late = after.invite(Role::Node, None, 0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let error = after.take(&late.secret, "n1", "").unwrap_err();
        assert_eq!(error.to_string(), "the token to join has expired");
        let unknown = after.take("rubbish", "n1", "").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no such token to join");
    }

    #[test]
    fn revoked_certificates_are_refused_and_later_pass() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        let authority = authority(&path);
        let issue = |name| {
            let (_, request) = super::super::request().unwrap();
            holder(&authority.issue(&request, name, Role::Node).unwrap())
        };
        let (first, other, third) = (issue("n1"), issue("n2"), issue("n3"));
        assert_eq!(authority.revoke("n1").unwrap(), Revoked::Known);
        assert_eq!(authority.revoke(&third.serial).unwrap(), Revoked::Known);
        let refused = Some("the certificate is revoked");
        assert_eq!(authority.refuses(&first), refused);
        assert_eq!(authority.refuses(&other), None);
        assert_eq!(authority.refuses(&third), refused);
        assert_eq!(authority.refuses(&issue("n1")), None);
        let after = Authority::open(&path).unwrap();
        assert_eq!(after.refuses(&first), refused);
        // The first admin, and a name with a token.
        assert_eq!(after.revoke("ada").unwrap(), Revoked::Known);
        after.invite(Role::User, Some("worker-7"), 60).unwrap();
        let near = Revoked::Unknown(Some("worker-7".to_owned()));
        assert_eq!(after.revoke("worker7").unwrap(), near);
        for _ in 0..2 {
            assert_eq!(after.revoke("worker-7").unwrap(), Revoked::Known);
        }
        assert_eq!(after.revoke("zoe").unwrap(), Revoked::Unknown(None));
        let expired = Principal {
            until_s: 1,
            ..other
        };
        let why = Some("the certificate has expired");
        assert_eq!(after.refuses(&expired), why);
    }

    #[test]
    fn a_request_cannot_choose_name_and_role() {
        let dir = tempfile::tempdir().unwrap();
        let authority = authority(&dir.path().join("authority"));
        let mut params = CertificateParams::default();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, "root");
        subject.push(DnType::OrganizationalUnitName, "admin");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let request = params.serialize_request(&key).unwrap().pem().unwrap();
        let chain = authority.issue(&request, "bob", Role::User).unwrap();
        let bob = holder(&chain);
        assert_eq!((&*bob.name, bob.role), ("bob", Role::User));
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        let (_, parsed) = x509_parser::prelude::parse_x509_certificate(&der).unwrap();
        assert!(!parsed.is_ca());
        for name in ["", "a b", "../x", "a\nb", "-x"] {
            assert!(
                authority.issue(&request, name, Role::User).is_err(),
                "{name}"
            );
        }
    }
}
