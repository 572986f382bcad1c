//! Tests with hostile clients: each is refused with its reason, the service still answers, and no node
//! loses its orders.
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use super::dial::{Credentials, dial};
use super::scheduler::{Limits, Watch, start};
use super::service::{Listen, serve};
use super::token::Token;
use crate::client::{self, Client, ClientError};
use crate::identity::audit::Audit;
use crate::identity::authority::Authority;
use crate::identity::tls::ServerTls;
use crate::identity::tokens::Invitation;
use crate::identity::{IdentityFile, Role};
use crate::protocol::scheduler::Settings;
use crate::protocol::{Epoch, Incarnation, Report, Session};
use crate::wire::pb;
use blox_core::{Composition, NodeSpec, order::SortKey, policy::by_key};
use blox_testing::FirstFit;
use pb::access_client::AccessClient;
use pb::jobs_client::JobsClient;
use pb::node_link_client::NodeLinkClient;
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

const SECOND: Duration = Duration::from_secs(1);

/// A scheduler with TLS, a node whose manager reports, and a job of bob.
struct World {
    dir: tempfile::TempDir,
    authority: Arc<Authority>,
    at: String,
    /// Orders that the node has received.
    orders: Arc<AtomicU64>,
    _stop: oneshot::Sender<()>,
    notices: Arc<std::sync::Mutex<Vec<String>>>,
    open: Vec<TcpStream>,
}

fn report(name: &str, key: &str, seq: u64) -> Report {
    Report {
        node: key.into(),
        boot: "b".into(),
        session: Session(1),
        seq,
        cluster: None,
        epoch: Epoch(0),
        incarnation: Incarnation(0),
        offer: Arc::new(NodeSpec {
            name: Some(name.into()),
            ..NodeSpec::with_gpus(1)
        }),
        address: "a".into(),
        attempts: Vec::new(),
        trouble: None,
        failed_gpus: Default::default(),
        unknown_health: None,
        protocol: crate::protocol::message::PROTOCOL,
        absence: None,
    }
}

fn job(user: &str) -> pb::Job {
    pb::Job {
        command: vec!["true".to_owned()],
        user: user.to_owned(),
        gpus: 1,
        iterations: 1.0,
        rate: 1.0,
        ..pb::Job::default()
    }
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hosts = ["127.0.0.1".to_owned()];
        let authority = Authority::create(&dir.path().join("ca"), &hosts, "ada").unwrap();
        let authority = Arc::new(authority);
        let state = dir.path().join("state");
        let fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap();
        // No decision is made, so the job waits.
        let settings = Settings {
            wait_for_nodes: 9,
            ..Settings::default()
        };
        let running = start(&state, settings, fifo, Limits::default(), Watch::default()).unwrap();
        let any = ([127, 0, 0, 1], 0).into();
        let listen = Listen::bind(any, None, Token::none()).await.unwrap();
        let listen = listen.with_tls(ServerTls::new(Arc::clone(&authority)).unwrap());
        let listen = listen.with_audit(Audit::open(&state).unwrap());
        let (ready, at) = oneshot::channel();
        let ready = move |at: std::net::SocketAddr, _| ready.send(at.to_string()).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let notices = Arc::new(std::sync::Mutex::new(Vec::new()));
        let copy = Arc::clone(&notices);
        let notice = move |text: &str| copy.lock().unwrap().push(text.to_owned());
        tokio::spawn(serve(running, listen, ready, notice, async {
            drop(stopped.await);
        }));
        let mut world = World {
            dir,
            authority,
            at: at.await.unwrap(),
            orders: Arc::default(),
            _stop: stop,
            notices,
            open: Vec::new(),
        };
        for (name, role) in [
            ("bob", Role::User),
            ("eve", Role::User),
            ("vi", Role::Viewer),
            ("op", Role::Operator),
            ("n1", Role::Node),
            ("n2", Role::Node),
        ] {
            world.issue(name, role);
        }
        world.live().await;
        let mut bob = world.jobs("bob").await;
        let request = pb::SubmitRequest {
            key: "first".to_owned(),
            job: Some(job("")),
        };
        bob.submit(request).await.unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.pem"))
    }

    fn issue(&self, name: &str, role: Role) -> PathBuf {
        let path = self.path(name);
        self.authority.issue_file(&path, name, role).unwrap();
        path
    }

    async fn channel(&self, name: &str) -> Result<Channel, String> {
        let identity = Credentials::Identity(self.path(name));
        let url = format!("http://{}", self.at);
        let beat = (4 * SECOND, 4 * SECOND);
        let channel = dial(&url, &identity, beat, false).await;
        channel.map_err(|e| client::root(&e))
    }

    async fn jobs(&self, name: &str) -> JobsClient<Channel> {
        JobsClient::new(self.channel(name).await.unwrap())
    }

    async fn access(&self, name: &str) -> AccessClient<Channel> {
        AccessClient::new(self.channel(name).await.unwrap())
    }

    /// Reports as node n1 three times a second, and counts its orders.
    async fn live(&mut self) {
        let mut client = NodeLinkClient::new(self.channel("n1").await.unwrap());
        let (tx, rx) = mpsc::channel(4);
        tx.send((&report("n1", "key-of-n1", 1)).into())
            .await
            .unwrap();
        let orders = client.link(ReceiverStream::new(rx)).await.unwrap();
        let mut orders = orders.into_inner();
        let count = Arc::clone(&self.orders);
        tokio::spawn(async move {
            for seq in 2.. {
                let next = report("n1", "key-of-n1", seq);
                if tx.send((&next).into()).await.is_err() {
                    return;
                }
                tokio::time::sleep(SECOND / 3).await;
            }
        });
        tokio::spawn(async move {
            while let Ok(Some(_)) = orders.message().await {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Asserts that users are answered and that the node receives orders.
    async fn is_well(&self, after: &str) {
        let begin = Instant::now();
        let before = self.orders.load(Ordering::Relaxed);
        let list = pb::ListRequest::default();
        let jobs = self.jobs("bob").await.list(list).await;
        assert_eq!(jobs.unwrap().into_inner().jobs.len(), 1, "{after}");
        while self.orders.load(Ordering::Relaxed) == before {
            assert!(begin.elapsed() < 10 * SECOND, "{after}: no orders");
            tokio::time::sleep(SECOND / 20).await;
        }
    }

    /// Opens a connection that sends some bytes, and stays open.
    async fn sends(&mut self, bytes: &[u8]) {
        let mut tcp = TcpStream::connect(&self.at).await.unwrap();
        // The scheduler may close it at once.
        let _ = tcp.write_all(bytes).await;
        self.open.push(tcp);
    }

    /// Returns the error of the first call with a certificate.
    async fn first_call(&self, name: &str) -> String {
        let identity = Credentials::Identity(self.path(name));
        match Client::connect(&self.at, identity).await {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Writes a certificate of bob that these seconds of Unix time bound. It is signed by an
    /// authority, or by itself.
    fn forge(&self, name: &str, days: (i64, i64), by: Option<&Path>) {
        let now = OffsetDateTime::now_utc();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.not_before = now + time::Duration::days(days.0);
        params.not_after = now + time::Duration::days(days.1);
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, "bob");
        subject.push(DnType::OrganizationalUnitName, "admin");
        let own = match by {
            None => params.self_signed(&key).unwrap(),
            Some(dir) => {
                let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
                let signer = KeyPair::from_pem(&read("authority.key")).unwrap();
                let issuer = Issuer::from_ca_cert_pem(&read("authority.pem"), signer).unwrap();
                params.signed_by(&key, &issuer).unwrap()
            }
        };
        let ours = std::fs::read_to_string(self.dir.path().join("ca/authority.pem")).unwrap();
        let chain = format!("{}{ours}", own.pem());
        IdentityFile::write(&self.path(name), &key.serialize_pem(), &chain).unwrap();
    }

    /// Returns the error that a stream of reports ends with.
    async fn link(&self, name: &str, report: Report) -> String {
        let mut client = NodeLinkClient::new(self.channel(name).await.unwrap());
        let (tx, rx) = mpsc::channel(4);
        tx.send((&report).into()).await.unwrap();
        let mut orders = match client.link(ReceiverStream::new(rx)).await {
            Ok(orders) => orders.into_inner(),
            Err(status) => return status.message().to_owned(),
        };
        match orders.message().await {
            Ok(_) => "accepted".to_owned(),
            Err(status) => status.message().to_owned(),
        }
    }

    fn token(&self, role: Role, name: Option<&str>, seconds: u64) -> Invitation {
        self.authority.invite(role, name, seconds).unwrap()
    }

    async fn join(&self, token: &Invitation, name: &str) -> Result<(String, String), String> {
        let file = self.dir.path().join("joined").join("identity.pem");
        let joined = client::join(&self.at, token, name, "", &file).await;
        joined.map_err(|error: ClientError| error.to_string())
    }

    /// Waits for a line of the audit log, which may be written after the client has its error.
    async fn audits(&self, part: &str) {
        let begin = Instant::now();
        while !self.audit().contains(part) {
            assert!(begin.elapsed() < 10 * SECOND, "{part}: {}", self.audit());
            tokio::time::sleep(SECOND / 20).await;
        }
    }

    fn audit(&self) -> String {
        let read = |name: &str| {
            let path = self.dir.path().join("state").join(name);
            std::fs::read_to_string(path).unwrap()
        };
        read("audit.jsonl") + &read("refused.jsonl")
    }
}

fn outcome<T>(answer: Result<T, tonic::Status>) -> String {
    answer.map_or_else(
        |status| status.message().to_owned(),
        |_| "accepted".to_owned(),
    )
}

/// Runs a test. A failed assertion does not wait for the scheduler's threads.
fn play(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    std::mem::ManuallyDrop::new(runtime).block_on(test);
}

/// Asserts that a refusal states its reason.
#[track_caller]
fn refused(case: &str, found: &str, expected: &str) {
    assert!(found.contains(expected), "{case}: {found}");
}

#[test]
fn bytes_that_are_no_request_hurt_no_one() {
    play(async {
        let mut w = World::new().await;
        w.sends(b"").await;
        w.is_well("an idle connection").await;
        w.sends(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        w.is_well("plain HTTP/2").await;
        w.sends(b"GET / HTTP/1.1\r\n\r\n").await;
        w.is_well("plain HTTP/1").await;
        // The first bytes of a TLS handshake.
        w.sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc").await;
        w.is_well("half a greeting").await;
        let noise: Vec<u8> = (0..65_536_u32).map(|n| ((n * n) >> 3) as u8).collect();
        w.sends(&noise).await;
        w.is_well("random bytes").await;
        for _ in 0..100 {
            w.sends(b"\x16").await;
        }
        w.is_well("a hundred begun handshakes").await;
        let mut slow = TcpStream::connect(&w.at).await.unwrap();
        let begin = Instant::now();
        for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01".iter().cycle() {
            if slow.write_all(&[*byte]).await.is_err() || begin.elapsed() > 12 * SECOND {
                break;
            }
            tokio::time::sleep(SECOND / 2).await;
        }
        let mut rest = Vec::new();
        let end = tokio::time::timeout(5 * SECOND, slow.read_to_end(&mut rest));
        assert!(end.await.is_ok(), "the slow connection is still open");
        w.is_well("a byte each half second").await;
        let audit = w.audit();
        for why in ["does not use TLS", "took longer than 5 s"] {
            assert!(audit.contains(why), "{why}: {audit}");
        }
        let notices = w.notices.lock().unwrap().join("\n");
        assert!(notices.contains("127.0.0.1 is refused: "), "{notices}");
    });
}

#[test]
fn bad_certificates_are_refused_with_reasons() {
    play(async {
        let w = World::new().await;
        let ca = w.dir.path().join("ca");
        let other = w.dir.path().join("other");
        Authority::create(&other, &["127.0.0.1".to_owned()], "mallory").unwrap();
        let foreign = "is not from the authority of this cluster";
        for (name, days, by, client, server) in [
            ("self-signed", (-1, 1), None, foreign, foreign),
            ("foreign", (-1, 1), Some(&other), foreign, foreign),
            ("expired", (-9, -1), Some(&ca), "has expired", "has expired"),
            (
                "future",
                (1, 9),
                Some(&ca),
                "not valid yet",
                "is not valid yet",
            ),
        ] {
            w.forge(name, days, by.map(PathBuf::as_path));
            refused(name, &w.first_call(name).await, client);
            w.audits(server).await;
            w.is_well(name).await;
        }
        // The certificate of the scheduler is not one of a user.
        std::fs::copy(ca.join("scheduler.pem"), w.path("purpose")).unwrap();
        refused(
            "purpose",
            &w.first_call("purpose").await,
            "for another purpose",
        );
        // The client trusts another authority than that of this scheduler.
        let admin = Credentials::Identity(other.join("admin.pem"));
        let error = Client::connect(&w.at, admin).await.err().unwrap();
        refused("pin", &error.to_string(), foreign);
        // The certificate of this scheduler is for an address.
        let by_name = w.at.replace("127.0.0.1", "localhost");
        let bob = || Credentials::Identity(w.path("bob"));
        let error = Client::connect(&by_name, bob()).await.err().unwrap();
        refused("name", &error.to_string(), "is for other host names");
        // A client without TLS, or with a token.
        for token in [Token::none(), Token::random().unwrap()] {
            let mut client = match Client::connect(&w.at, token).await {
                Ok(client) => client,
                Err(ClientError::Unreachable { .. }) => continue,
                Err(other) => panic!("{other}"),
            };
            let answer = client.nodes().await;
            assert!(matches!(answer, Err(ClientError::Unreachable { .. })));
        }
        // A client without a certificate.
        let newcomer = Credentials::Newcomer(w.authority.fingerprint().to_owned());
        let url = format!("http://{}", w.at);
        let channel = dial(&url, &newcomer, (SECOND, SECOND), false)
            .await
            .unwrap();
        let mut nameless = JobsClient::new(channel);
        let list = nameless.list(pb::ListRequest::default());
        refused("none", &outcome(list.await), "asks for a certificate");
        // A fingerprint of another authority.
        let wrong = Invitation {
            fingerprint: "0".repeat(64),
            ..w.token(Role::User, Some("x"), 60)
        };
        refused(
            "fingerprint",
            &w.join(&wrong, "").await.unwrap_err(),
            foreign,
        );
        w.is_well("bad certificates").await;
        assert_eq!(w.first_call("bob").await, "accepted");
    });
}

#[test]
fn long_texts_reach_neither_clients_nor_the_audit() {
    play(async {
        let w = World::new().await;
        let long = "x".repeat(100_000);
        let submit = |job: pb::Job| pb::SubmitRequest {
            key: long.chars().take(100).collect(),
            job: Some(job),
        };
        let mut eve = w.jobs("eve").await;
        let user = eve.submit(submit(job(&long))).await.unwrap_err();
        refused("user", user.message(), "user is 100000 characters long");
        let mut badly = job("");
        badly.env.insert(format!("{long}="), String::new());
        let env = eve.submit(submit(badly)).await.unwrap_err();
        refused("env", env.message(), "expected a name, `=` and a value");
        let many = pb::SubmitManyRequest {
            key: "many".to_owned(),
            job: Some(job("")),
            dependency: format!("afterok:{long}"),
            ..pb::SubmitManyRequest::default()
        };
        let dependency = eve.submit_many(many).await.unwrap_err();
        refused("dependency", dependency.message(), "dependency: ");
        // A node, whose refusal ends its stream, and a newcomer without a certificate.
        let stream = w.link("n2", report(&long, "key", 1)).await;
        refused("node", &stream, "the certificate is of node n2");
        let invitation = w.token(Role::Node, None, 60);
        let joined = w.join(&invitation, &long).await.unwrap_err();
        refused("name", &joined, "name is `xxx");
        let texts = [user, env, dependency].map(|status| status.message().to_owned());
        for text in texts.into_iter().chain([stream, joined]) {
            assert!(text.chars().count() <= 1_000, "{} bytes", text.len());
        }
        w.audits("NodeLink/Link").await;
        let longest = w.audit().lines().map(str::len).max();
        assert!(longest.is_some_and(|bytes| bytes < 1_000), "{longest:?}");
    });
}

#[test]
fn strangers_fill_no_audit() {
    play(async {
        let w = World::new().await;
        for _ in 0..300 {
            let mut tcp = TcpStream::connect(&w.at).await.unwrap();
            // The scheduler may close it at once.
            let _ = tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
            let _ = tcp.shutdown().await;
            let _ = tcp.read_to_end(&mut Vec::new()).await;
        }
        w.audits("does not use TLS").await;
        w.is_well("300 strangers").await;
        let refused = w.audit();
        let of_strangers = refused.lines().filter(|line| line.contains("not use TLS"));
        assert!(of_strangers.count() <= 120);
    });
}

#[test]
fn callers_without_the_right_are_refused() {
    play(async {
        let w = World::new().await;
        let submit = |key: &str, user: &str| pb::SubmitRequest {
            key: key.to_owned(),
            job: Some(job(user)),
        };
        let cancel = pb::ChangeRequest {
            job: 0,
            verb: pb::Verb::Cancel.into(),
        };
        let logs = pb::LogsRequest::default;
        let node = || "n1".to_owned();
        let drain = || pb::DrainRequest {
            node: node(),
            why: "why".to_owned(),
            evict_after_s: None,
        };
        let token = || pb::CreateTokenRequest {
            role: "admin".to_owned(),
            name: "eve".to_owned(),
            seconds: 60,
        };
        let none = "has no right to";
        let own = "job 0 is of user bob, and eve has rights to own jobs only";
        let mut found: Vec<(&str, String, &str)> = Vec::new();
        for name in ["vi", "n2"] {
            let mut c = w.jobs(name).await;
            found.push(("submit", outcome(c.submit(submit("k", "")).await), none));
            found.push(("cancel", outcome(c.change(cancel).await), none));
            found.push(("logs", outcome(c.logs(logs()).await), none));
        }
        let mut eve = w.jobs("eve").await;
        found.push(("cancel", outcome(eve.change(cancel).await), own));
        found.push(("logs", outcome(eve.logs(logs()).await), own));
        let spoofed = "user is `bob`, expected `eve`";
        found.push((
            "user",
            outcome(eve.submit(submit("k", "bob")).await),
            spoofed,
        ));
        found.push((
            "root",
            outcome(eve.submit(submit("k", "root")).await),
            "user is `root`",
        ));
        found.push(("drain", outcome(eve.drain(drain()).await), none));
        let resume = pb::ResumeRequest { node: node() };
        found.push(("resume", outcome(eve.resume(resume).await), none));
        let remove = pb::RemoveRequest { node: node() };
        found.push(("remove", outcome(eve.remove(remove).await), none));
        let offers = pb::OffersRequest::default();
        found.push(("offers", outcome(eve.offers(offers).await), none));
        let mut node_jobs = w.jobs("n2").await;
        let list = node_jobs.list(pb::ListRequest::default()).await;
        found.push(("node lists", outcome(list), none));
        for name in ["vi", "eve", "op", "n1"] {
            let mut c = w.access(name).await;
            found.push(("token", outcome(c.create_token(token()).await), none));
            let what = "ada".to_owned();
            found.push((
                "revoke",
                outcome(c.revoke(pb::RevokeRequest { what }).await),
                none,
            ));
        }
        for name in ["vi", "eve", "op", "ada"] {
            if name == "ada" {
                w.issue("ada", Role::Admin);
            }
            let link = w.link(name, report(name, "key", 1)).await;
            found.push(("user as node", link, none));
        }
        // 5 MiB, where messages have at most 4.
        let mut large = submit("large", "");
        if let Some(job) = &mut large.job {
            job.command = vec!["x".repeat(5 << 20)];
        }
        found.push(("large", outcome(eve.submit(large).await), "too large"));
        for (case, text, expected) in &found {
            refused(case, text, expected);
        }
        w.is_well("calls without a right").await;
        let audit = w.audit();
        let lines: Vec<serde_json::Value> = audit
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let denied = |name: &str, method: &str| {
            lines.iter().any(|line| {
                line["name"] == name && line["method"] == method && line["allowed"] == false
            })
        };
        assert!(denied("eve", "Jobs/Change") && denied("vi", "Jobs/Submit"));
        assert!(denied("op", "Access/CreateToken") && denied("eve", "NodeLink/Link"));
        let submitted = lines.iter().find(|line| line["method"] == "Jobs/Submit");
        let submitted = submitted.unwrap();
        assert_eq!(
            (&submitted["name"], &submitted["object"]),
            (&"bob".into(), &"key first".into())
        );
        // An operator acts for others, and the owner for itself.
        let mut op = w.jobs("op").await;
        let shown = op.submit(submit("of eve", "eve")).await.unwrap();
        let eves = pb::ChangeRequest {
            job: shown.into_inner().job,
            ..cancel
        };
        assert_eq!(outcome(eve.change(eves).await), "accepted");
        let hold = pb::ChangeRequest {
            verb: pb::Verb::Hold.into(),
            ..cancel
        };
        assert_eq!(outcome(op.change(hold).await), "accepted");
    });
}

#[test]
fn a_node_acts_under_its_own_name_only() {
    play(async {
        let w = World::new().await;
        let own = "the certificate is of node n2, and may not act as node n1";
        refused("name", &w.link("n2", report("n1", "key", 1)).await, own);
        // The persistent name of the other node, which a job could have read there.
        let key = w.link("n2", report("n2", "key-of-n1", 1)).await;
        refused("key", &key, "the certificate is of node n2");
        refused(
            "nameless",
            &w.link("n2", report("", "key", 1)).await,
            "is of node n2",
        );
        let mut client = NodeLinkClient::new(w.channel("n2").await.unwrap());
        let (tx, rx) = mpsc::channel(4);
        let desk = pb::LogPart {
            node: "key-of-n1".to_owned(),
            session: u64::MAX,
            ..pb::LogPart::default()
        };
        tx.send(desk).await.unwrap();
        let wanted = client.logs(ReceiverStream::new(rx)).await.unwrap();
        let mut wanted = wanted.into_inner();
        let end = tokio::time::timeout(5 * SECOND, wanted.message());
        assert!(matches!(end.await, Ok(Ok(None))), "the desk of n1 is taken");
        w.is_well("node n2 as n1").await;
        assert_eq!(w.link("n2", report("n2", "key-of-n2", 1)).await, "accepted");
    });
}

#[test]
fn tokens_to_join_give_only_what_they_state() {
    play(async {
        let w = World::new().await;
        let token = w.token(Role::User, Some("carol"), 60);
        let other = w.join(&token, "ada").await.unwrap_err();
        refused("other name", &other, "is for another name");
        let joined = w.join(&token, "").await.unwrap();
        assert_eq!(joined, ("carol".to_owned(), "user".to_owned()));
        let again = w.join(&token, "").await.unwrap_err();
        refused("twice", &again, "was used before");
        let late = w.token(Role::User, Some("dan"), 1);
        tokio::time::sleep(SECOND * 21 / 10).await;
        refused("late", &w.join(&late, "").await.unwrap_err(), "has expired");
        let guess = Invitation {
            secret: "0".repeat(64),
            ..token
        };
        refused(
            "guess",
            &w.join(&guess, "").await.unwrap_err(),
            "no such token",
        );
        let node = w.token(Role::Node, None, 60);
        for name in ["../../etc", "a b", "n1\n", &"x".repeat(65), "-n"] {
            let error = w.join(&node, name).await.unwrap_err();
            refused(name, &error, "expected 1 to 64 letters");
        }
        // The name of the token decides also for path tricks of an admin.
        let mut ada = AccessClient::new(w.channel_of(&w.dir.path().join("ca/admin.pem")).await);
        let tricks = pb::CreateTokenRequest {
            role: "user".to_owned(),
            name: "../x".to_owned(),
            seconds: 60,
        };
        refused(
            "trick",
            &outcome(ada.create_token(tricks).await),
            "expected 1 to 64",
        );
        let nameless = pb::CreateTokenRequest {
            role: "user".to_owned(),
            name: String::new(),
            seconds: 60,
        };
        refused(
            "nameless",
            &outcome(ada.create_token(nameless).await),
            "name is missing",
        );
        assert_eq!(w.join(&node, "n9").await.unwrap().0, "n9");
        w.is_well("tokens").await;
    });
}

impl World {
    async fn channel_of(&self, identity: &Path) -> Channel {
        let url = format!("http://{}", self.at);
        let identity = Credentials::Identity(identity.to_owned());
        let beat = (4 * SECOND, 4 * SECOND);
        dial(&url, &identity, beat, false).await.unwrap()
    }
}

#[test]
fn revoked_certificates_end_calls_and_streams() {
    play(async {
        let w = World::new().await;
        let mut eve = w.jobs("eve").await;
        let list = pb::ListRequest::default;
        assert_eq!(outcome(eve.list(list()).await), "accepted");
        let mut ada = AccessClient::new(w.channel_of(&w.dir.path().join("ca/admin.pem")).await);
        let revoke = |what: &str| pb::RevokeRequest {
            what: what.to_owned(),
        };
        ada.revoke(revoke("eve")).await.unwrap();
        // Also on the open connection.
        refused("open", &outcome(eve.list(list()).await), "is revoked");
        refused("new", &w.first_call("eve").await, "is revoked");
        w.is_well("eve is revoked").await;
        let mut n2 = NodeLinkClient::new(w.channel("n2").await.unwrap());
        let (tx, rx) = mpsc::channel(4);
        tx.send((&report("n2", "key-of-n2", 1)).into())
            .await
            .unwrap();
        let mut orders = n2.link(ReceiverStream::new(rx)).await.unwrap().into_inner();
        assert!(orders.message().await.unwrap().is_some());
        ada.revoke(revoke("n2")).await.unwrap();
        tx.send((&report("n2", "key-of-n2", 2)).into())
            .await
            .unwrap();
        let end = async {
            loop {
                match orders.message().await {
                    Ok(Some(_)) => {}
                    end => return end,
                }
            }
        };
        let end = tokio::time::timeout(5 * SECOND, end).await.unwrap();
        refused("stream", &outcome(end), "is revoked");
        // A new certificate of the name is valid.
        w.issue("n2", Role::Node);
        assert_eq!(w.link("n2", report("n2", "key-of-n2", 3)).await, "accepted");
        w.is_well("n2 is revoked").await;
    });
}

#[test]
fn replaced_certificates_apply_without_a_restart() {
    play(async {
        let w = World::new().await;
        let seen = || {
            let file = IdentityFile::read(&w.dir.path().join("ca/scheduler.pem")).unwrap();
            file.chain.first().unwrap().to_vec()
        };
        let before = seen();
        w.authority.renew_scheduler().unwrap();
        assert_ne!(seen(), before);
        w.is_well("the scheduler has another certificate").await;
        // A damaged file changes nothing.
        std::fs::write(w.dir.path().join("ca/scheduler.pem"), "rubbish").unwrap();
        w.is_well("its file is damaged").await;
        let mut bob = w.access("bob").await;
        let (key, request) = crate::identity::request().unwrap();
        let reply = bob.renew(pb::RenewRequest { request }).await.unwrap();
        let chain = reply.into_inner().chain;
        IdentityFile::write(&w.path("bob"), &key, &chain).unwrap();
        w.is_well("bob has another certificate").await;
    });
}

#[test]
fn a_node_renews_its_certificate_and_stays_up() {
    play(async {
        use super::node::{NodeSettings, run, tests::settings};
        let w = World::new().await;
        // Of a short life; the renewed one is long.
        let short = Authority::open(&w.dir.path().join("ca")).unwrap();
        let short = short.with_life(15);
        short.issue_file(&w.path("n3"), "n3", Role::Node).unwrap();
        let serial = || {
            let file = IdentityFile::read(&w.path("n3")).unwrap();
            file.principal.unwrap().serial
        };
        let before = serial();
        let settings = NodeSettings {
            scheduler: format!("http://{}", w.at),
            offer: report("n3", "", 0).offer.as_ref().clone(),
            credentials: Credentials::Identity(w.path("n3")),
            ..settings(&w.dir.path().join("n3"))
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let node = tokio::spawn(run(settings, async { drop(stopped.await) }, |_| {}));
        let begin = Instant::now();
        while serial() == before {
            assert!(begin.elapsed() < 40 * SECOND, "it is not renewed");
            tokio::time::sleep(SECOND / 5).await;
        }
        // Longer than the first certificate lived.
        tokio::time::sleep((16 * SECOND).saturating_sub(begin.elapsed())).await;
        let mut bob = w.jobs("bob").await;
        let nodes = bob.nodes(pb::NodesRequest {}).await.unwrap().into_inner();
        let node_line = nodes.nodes.iter().find(|node| node.name == "n3").unwrap();
        assert!(
            node_line.status == "up" && node_line.silent_s < 5.0,
            "{node_line:?}"
        );
        drop(stop);
        node.await.unwrap().unwrap();
    });
}
