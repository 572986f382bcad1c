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
/// File of tokens and names.
const TOKENS: &str = "tokens.json";
/// File of revoked certificates.
const DENIED: &str = "denied.json";
/// A list without entries.
const EMPTY: &[u8] = b"{}\n";

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

impl Lists {
    /// Reads the lists of a folder, with a warning if the list of revoked certificates is missing.
    fn read(dir: &Path) -> Result<(Self, Option<String>), IdentityError> {
        let tokens = ", or replace it by {}: tokens that are not used yet have to be created again";
        let tokens: Option<Tokens> = list(&dir.join(TOKENS), tokens)?;
        let tokens = tokens.unwrap_or_default();
        let path = dir.join(DENIED);
        let denied = ", or replace it by {} and revoke certificates again";
        let denied: Option<Denied> = list(&path, denied)?;
        let path = path.display();
        let warning = match &denied {
            None if tokens.has_denied => {
                return Err(IdentityError::Invalid(format!(
                    "{path} is missing, so revoked certificates would work again: restore it from a backup, or write {{}} to it and revoke certificates again"
                )));
            }
            None => Some(format!(
                "{path} was missing and is new: if certificates were revoked before, revoke them again"
            )),
            Some(_) => None,
        };
        let lists = Lists {
            tokens,
            denied: denied.unwrap_or_default(),
            last_ms: 0,
        };
        Ok((lists, warning))
    }

    fn save_tokens(&self, dir: &Path) -> Result<(), IdentityError> {
        let text = serde_json::to_vec_pretty(&self.tokens).map_err(IdentityError::invalid)?;
        replace(&dir.join(TOKENS), &text)
    }

    /// Changes the tokens in the file and in memory. After an error neither is changed.
    fn change(
        &mut self,
        dir: &Path,
        change: impl FnOnce(&mut Tokens),
    ) -> Result<(), IdentityError> {
        let before = self.tokens.clone();
        change(&mut self.tokens);
        let saved = self.save_tokens(dir);
        if saved.is_err() {
            self.tokens = before;
        }
        saved
    }

    /// Returns a serial number, which is larger than the earlier ones.
    fn serial(&mut self) -> SerialNumber {
        self.last_ms = unix_ms().max(self.last_ms + 1);
        let time = self.last_ms.to_be_bytes();
        let random = crate::shell::token::random().unwrap_or_default();
        let random = random.as_bytes().iter().take(7).copied();
        // A number that begins with zeros would lose them.
        let all: Vec<u8> = [1].into_iter().chain(time).chain(random).collect();
        SerialNumber::from(all)
    }
}

/// Reads a list; `None` if the file is missing.
fn list<T: serde::de::DeserializeOwned>(
    path: &Path,
    remedy: &str,
) -> Result<Option<T>, IdentityError> {
    match fs::read(path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(list) => Ok(Some(list)),
            Err(e) => Err(damaged(path, &e, remedy)),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(IdentityError::io(path)(error)),
    }
}

/// Returns the error of a file that cannot be understood.
fn damaged(path: &Path, error: &dyn std::fmt::Display, remedy: &str) -> IdentityError {
    let path = path.display();
    IdentityError::Invalid(format!(
        "{path} is damaged ({error}): restore it from a backup{remedy}"
    ))
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
    /// A sentence about a file that was missing.
    warning: Option<String>,
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
        replace(&dir.join(DENIED), EMPTY)?;
        // The folder counts as complete once it has the key.
        replace(&key_path, key.serialize_pem().as_bytes())?;
        let authority = Self::open(dir)?;
        authority.renew_scheduler()?;
        authority.issue_file(&dir.join("admin.pem"), admin, Role::Admin)?;
        Ok(authority)
    }

    /// Opens the authority of a folder. If a folder of an earlier version lacks the list of revoked
    /// certificates, it gets an empty one and [`Authority::warning`] a sentence.
    ///
    /// # Errors
    /// A file cannot be read or is invalid, or the list of revoked certificates was removed.
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        private::folder(dir).map_err(IdentityError::io(dir))?;
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).map_err(IdentityError::io(&path))
        };
        let pem = read("authority.pem")?;
        let key = KeyPair::from_pem(&read("authority.key")?);
        let key = key.map_err(|e| damaged(&dir.join("authority.key"), &e, ""))?;
        let invalid = |e: &dyn std::fmt::Display| damaged(&dir.join("authority.pem"), e, "");
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|e| invalid(&e))?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| invalid(&e))?;
        let (mut lists, warning) = Lists::read(dir)?;
        // Later starts notice that the list was removed. A full disk ends no start.
        let is_there = warning.is_none() || replace(&dir.join(DENIED), EMPTY).is_ok();
        if is_there && !lists.tokens.has_denied {
            lists.tokens.has_denied = true;
            let _ = lists.save_tokens(dir);
        }
        Ok(Authority {
            dir: dir.to_owned(),
            issuer,
            fingerprint: digest(&der),
            pem,
            lists: Mutex::new(lists),
            life_s: DAYS * DAY_S,
            warning,
        })
    }

    /// Returns a sentence for the administrator if the list of revoked certificates was missing.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
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

    fn params(&self, lists: &mut Lists) -> CertificateParams {
        let mut params = CertificateParams::default();
        let now = unix_ms() / 1000;
        // A short life must not have ended before it began.
        let before = BEFORE_S.min(self.life_s / 4);
        dates(&mut params, now - before, now + self.life_s);
        params.serial_number = Some(lists.serial());
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
        let hosts: Vec<String> = serde_json::from_slice(&hosts).map_err(|e| {
            damaged(
                &path,
                &e,
                ", or write the host names of the scheduler to it as a JSON list",
            )
        })?;
        let named = CertificateParams::new(hosts).map_err(IdentityError::invalid)?;
        let mut params = self.params(&mut self.lists());
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
        let mut lists = self.lists();
        let chain = self.sign(&mut lists, request, name, role)?;
        if !lists.tokens.has_name(name) {
            lists.change(&self.dir, |tokens| tokens.name(name))?;
        }
        Ok(chain)
    }

    fn sign(
        &self,
        lists: &mut Lists,
        request: &str,
        name: &str,
        role: Role,
    ) -> Result<String, IdentityError> {
        check_name(name)?;
        // Only the key of the request counts.
        let request = CertificateSigningRequestParams::from_pem(request);
        let request = request.map_err(IdentityError::invalid)?;
        let mut params = self.params(lists);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let subject = &mut params.distinguished_name;
        *subject = rcgen::DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject.push(DnType::OrganizationalUnitName, role.as_str());
        let signed = params.signed_by(&request.public_key, &self.issuer);
        let signed = signed.map_err(IdentityError::invalid)?;
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
        let until_s = unix_ms() / 1000 + seconds;
        self.lists().change(&self.dir, |tokens| {
            tokens.add(&secret, role, name, until_s);
        })?;
        Ok(Invitation {
            secret,
            fingerprint: self.fingerprint.clone(),
        })
    }

    /// Issues a certificate for a token, and returns role and name of its holder with it. A node whose
    /// token has no name gets the name `wanted`, or else `host`. After an error the token is still
    /// unused.
    ///
    /// # Errors
    /// The token is unknown, used or expired, or is for another name. The request is invalid, or the
    /// list of tokens cannot be written.
    pub fn join(
        &self,
        secret: &str,
        wanted: &str,
        host: &str,
        request: &str,
    ) -> Result<(Role, String, String), IdentityError> {
        let now_s = unix_ms() / 1000;
        let mut lists = self.lists();
        let (role, name) = lists.tokens.check(secret, wanted, host, now_s)?;
        let chain = self.sign(&mut lists, request, &name, role)?;
        // A token counts as used before its certificate leaves.
        lists.change(&self.dir, |tokens| tokens.take(secret, role, &name, now_s))?;
        Ok((role, name, chain))
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
        replace(&self.dir.join(DENIED), &text)?;
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
        lists.save_tokens(&self.dir)?;
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
        let (_, request) = super::super::request().unwrap();
        let join = |authority: &Authority, secret: &str, wanted: &str| {
            authority.join(secret, wanted, "", &request)
        };
        let (role, name, chain) = join(&after, &token.secret, "").unwrap();
        assert_eq!((role, &*name), (Role::User, "bob"));
        assert_eq!(holder(&chain).name, "bob");
        for authority in [&after, &Authority::open(&path).unwrap()] {
            let error = join(authority, &token.secret, "").unwrap_err();
            assert_eq!(error.to_string(), "the token to join was used before");
        }
        let late = after.invite(Role::Node, None, 0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let error = join(&after, &late.secret, "n1").unwrap_err();
        assert_eq!(error.to_string(), "the token to join has expired");
        let unknown = join(&after, "rubbish", "n1").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no such token to join");
    }

    #[test]
    fn a_failed_join_leaves_its_token_unused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        let authority = authority(&path);
        let token = authority.invite(Role::Node, None, 60).unwrap();
        let (_, request) = super::super::request().unwrap();
        let join = |request: &str| authority.join(&token.secret, "n1", "", request);
        assert!(join("no request").is_err());
        // No file can be written in place of this folder.
        let obstacle = path.join("tokens.new");
        fs::create_dir(&obstacle).unwrap();
        for _ in 0..2 {
            let error = join(&request).unwrap_err().to_string();
            assert!(error.contains("tokens.json"), "{error}");
        }
        let invited = authority.invite(Role::User, Some("bob"), 60);
        assert!(invited.is_err());
        fs::remove_dir(&obstacle).unwrap();
        assert_eq!(join(&request).unwrap().1, "n1");
        let error = join(&request).unwrap_err().to_string();
        assert_eq!(error, "the token to join was used before");
    }

    #[test]
    fn missing_revocations_end_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        assert_eq!(authority(&path).warning(), None);
        let denied = path.join(DENIED);
        assert_eq!(Authority::open(&path).unwrap().warning(), None);
        fs::remove_file(&denied).unwrap();
        let error = Authority::open(&path).unwrap_err().to_string();
        let expected = format!("{} is missing, so revoked", denied.display());
        assert!(error.starts_with(&expected), "{error}");
        fs::write(&denied, "{}").unwrap();
        assert!(Authority::open(&path).is_ok());
        // A folder of an earlier version starts, and gets the list.
        fs::write(path.join(TOKENS), r#"{"names":["ada"]}"#).unwrap();
        assert_eq!(Authority::open(&path).unwrap().warning(), None);
        fs::write(path.join(TOKENS), r#"{"names":["ada"]}"#).unwrap();
        fs::remove_file(&denied).unwrap();
        let old = Authority::open(&path).unwrap();
        assert!(old.warning().unwrap().contains("revoke them again"));
        assert_eq!(Authority::open(&path).unwrap().warning(), None);
        fs::remove_file(&denied).unwrap();
        assert!(Authority::open(&path).is_err());
    }

    #[test]
    fn a_damaged_list_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority");
        authority(&path);
        for name in [DENIED, TOKENS, "authority.key", "authority.pem"] {
            let file = path.join(name);
            let sound = fs::read(&file).unwrap();
            fs::write(&file, "").unwrap();
            let error = Authority::open(&path).unwrap_err().to_string();
            let begin = format!("{} is damaged (", file.display());
            assert!(error.starts_with(&begin), "{error}");
            assert!(error.contains("restore it from a backup"), "{error}");
            fs::write(&file, sound).unwrap();
        }
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
