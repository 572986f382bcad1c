//! Requests to a provider of nodes: the thread that makes them, and programs as a provider.

use crate::private;
use crate::protocol::NodeRequest;
use crate::protocol::launches::NodeLimits;
use crate::provider::{NodeProvider, ProviderError};
use async_trait::async_trait;
use blox_core::{ActionId, NodeActionKind, NodeActionKinds};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Name of the environment variable with the path of the request's file.
pub const REQUEST_FILE: &str = "BLOX_NODE_REQUEST";

/// Length in bytes of the end of a program's error output that the operator reads.
const SHOWN: usize = 300;

/// Starts a thread that makes requests until the returned sender is dropped. `answer` receives
/// whether each request was accepted.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn start(
    provider: Arc<dyn NodeProvider>,
    limits: NodeLimits,
    answer: impl Fn(ActionId, Result<(), String>) + Send + 'static,
) -> io::Result<mpsc::UnboundedSender<NodeRequest>> {
    let (to, requests) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("node-provider".to_owned())
        .spawn(move || runtime.block_on(serve(provider, limits, requests, answer)))?;
    Ok(to)
}

async fn serve(
    provider: Arc<dyn NodeProvider>,
    limits: NodeLimits,
    mut requests: mpsc::UnboundedReceiver<NodeRequest>,
    answer: impl Fn(ActionId, Result<(), String>),
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(request) = request else { return };
                let provider = Arc::clone(&provider);
                open.spawn(make(provider, limits, request));
            }
            Some(Ok((id, result))) = open.join_next() => answer(id, result),
        }
    }
}

/// Makes a request. A provider that panics or takes too long does not accept it.
async fn make(
    provider: Arc<dyn NodeProvider>,
    limits: NodeLimits,
    request: NodeRequest,
) -> (ActionId, Result<(), String>) {
    let id = request.id;
    let comes = matches!(
        request.action,
        NodeActionKind::PowerOn | NodeActionKind::Grow
    );
    let limit = limits.of(request.action);
    let call = tokio::spawn(async move {
        let call = async {
            match comes {
                true => provider.resume(&request).await,
                false => provider.suspend(&request).await,
            }
        };
        tokio::time::timeout(Duration::from_millis(limit.0), call).await
    });
    let result = match call.await {
        Ok(Ok(result)) => result.map_err(|error| error.to_string()),
        Ok(Err(_)) => Err(format!(
            "the provider did not answer within {} s",
            limit.as_secs()
        )),
        Err(_) => Err("the provider panicked".to_owned()),
    };
    (id, result)
}

/// Programs as a provider, with the contract of Slurm's `ResumeProgram` and `SuspendProgram`.
///
/// A program receives the names of the nodes as its only argument, separated by commas. The
/// environment variable [`REQUEST_FILE`] names a JSON file with the [`NodeRequest`]. Exit code 0
/// accepts the request. Processes that the program leaves behind continue; if it takes too long, its
/// process group is killed.
#[derive(Clone, Debug)]
pub struct Programs {
    resume: Option<PathBuf>,
    suspend: Option<PathBuf>,
    dir: PathBuf,
}

impl Programs {
    /// Creates a provider from the two programs, of which any may be missing. Their files are in
    /// `dir`.
    pub fn new(resume: Option<PathBuf>, suspend: Option<PathBuf>, dir: PathBuf) -> Self {
        Programs {
            resume,
            suspend,
            dir,
        }
    }

    async fn run(
        &self,
        program: Option<&PathBuf>,
        request: &NodeRequest,
    ) -> Result<(), ProviderError> {
        let program = program.ok_or(ProviderError::Unsupported)?;
        let of = |path: &Path| {
            let path = path.to_owned();
            move |error| ProviderError::Io { path, error }
        };
        private::folder(&self.dir).map_err(of(&self.dir))?;
        let file = self.dir.join(format!("{}.json", request.id));
        let errors = self.dir.join(format!("{}.err", request.id));
        let text = serde_json::to_vec(request).map_err(|e| ProviderError::Other(e.to_string()))?;
        let mut written = private::create(&file).map_err(of(&file))?;
        written.write_all(&text).map_err(of(&file))?;
        // The file may stay open in a process that the program leaves behind. A pipe would then
        // never end.
        let output = private::create(&errors).map_err(of(&errors))?;
        let names: Vec<&str> = request.names.iter().map(|name| name.as_str()).collect();
        let child = Command::new(program)
            .arg(names.join(","))
            .env(REQUEST_FILE, &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(of(program))?;
        let mut group = Group(child.id());
        let status = child.wait().await.map_err(of(program))?;
        group.0 = None;
        let output = end_of(&std::fs::read(&errors).unwrap_or_default());
        // The files are rewritten by a request with the same number.
        let _ = (std::fs::remove_file(&file), std::fs::remove_file(&errors));
        match status.success() {
            true => Ok(()),
            false => Err(ProviderError::Failed {
                program: program.clone(),
                status,
                output,
            }),
        }
    }
}

/// Process group of a program. It is killed with this value if the program has not ended.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|pid| i32::try_from(pid).ok());
        if let Some(group) = pid.and_then(Pid::from_raw) {
            // It may just have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns the last line of a text, and at most its end.
fn end_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end().lines().last().unwrap_or_default();
    let from = line.len().saturating_sub(SHOWN);
    let from = (from..line.len()).find(|at| line.is_char_boundary(*at));
    line[from.unwrap_or(line.len())..].to_owned()
}

#[async_trait]
impl NodeProvider for Programs {
    fn can(&self) -> NodeActionKinds {
        use NodeActionKind::{Grow, Leave, PowerOff, PowerOn};
        let comes = self.resume.as_ref().map(|_| [PowerOn, Grow]);
        let goes = self.suspend.as_ref().map(|_| [PowerOff, Leave]);
        let kinds: Vec<NodeActionKind> = [comes, goes].into_iter().flatten().flatten().collect();
        NodeActionKinds::of(&kinds)
    }

    async fn resume(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        self.run(self.resume.as_ref(), request).await
    }

    async fn suspend(&self, request: &NodeRequest) -> Result<(), ProviderError> {
        self.run(self.suspend.as_ref(), request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ClusterId, Millis};
    use blox_core::NodeSpec;
    use std::os::unix::fs::PermissionsExt;

    fn request(id: u32, action: NodeActionKind) -> NodeRequest {
        NodeRequest {
            cluster: ClusterId("c".into()),
            id: ActionId(id),
            action,
            spec: NodeSpec::with_gpus(2),
            names: vec!["a".into(), "b".into()],
        }
    }

    /// Makes the requests under limits of 2 s, and returns the answers by number.
    fn answers(
        provider: impl NodeProvider + 'static,
        requests: Vec<NodeRequest>,
    ) -> Vec<(u32, Result<(), String>)> {
        let limit = Millis::secs(2);
        let limits = NodeLimits {
            come: limit,
            go: limit,
        };
        let (tx, rx) = std::sync::mpsc::channel();
        let answer = move |id: ActionId, result| {
            let _ = tx.send((id.0, result));
        };
        let to = start(Arc::new(provider), limits, answer).unwrap();
        let count = requests.len();
        for request in requests {
            to.send(request).unwrap();
        }
        let next = || rx.recv_timeout(Duration::from_secs(20)).unwrap();
        let mut all: Vec<_> = (0..count).map(|_| next()).collect();
        all.sort();
        all
    }

    fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn program_gets_names_and_file_and_accepts_by_exit_0() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let seen = at.join("seen");
        // What a program leaves behind does not delay the answer.
        let resume = format!(
            "echo $1 > {0}; cat $BLOX_NODE_REQUEST >> {0}; sleep 30 &",
            seen.display()
        );
        let resume = script(at, "resume", &resume);
        let suspend = script(at, "suspend", "echo more >&2; echo no room >&2; exit 3");
        let programs = Programs::new(Some(resume), Some(suspend.clone()), at.join("requests"));
        assert_eq!(
            programs.can(),
            NodeActionKinds::of(&[
                NodeActionKind::PowerOn,
                NodeActionKind::PowerOff,
                NodeActionKind::Grow,
                NodeActionKind::Leave,
            ])
        );
        let (grow, off) = (
            request(1, NodeActionKind::Grow),
            request(2, NodeActionKind::PowerOff),
        );
        let all = answers(programs, vec![grow.clone(), off]);
        let failed = format!("{} ended with exit status: 3: no room", suspend.display());
        assert_eq!(all, [(1, Ok(())), (2, Err(failed))]);
        let text = std::fs::read_to_string(seen).unwrap();
        let (names, file) = text.split_once('\n').unwrap();
        assert_eq!(names, "a,b");
        assert_eq!(serde_json::from_str::<NodeRequest>(file).unwrap(), grow);
    }

    #[test]
    fn slow_program_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let (at, late) = (dir.path(), dir.path().join("late"));
        let text = format!("(sleep 4; touch {}) & wait", late.display());
        let resume = script(at, "resume", &text);
        let programs = Programs::new(Some(resume), None, at.join("requests"));
        let all = answers(
            programs,
            vec![
                request(1, NodeActionKind::PowerOn),
                request(2, NodeActionKind::Leave),
            ],
        );
        let late_answer = "the provider did not answer within 2 s".to_owned();
        let cannot = ProviderError::Unsupported.to_string();
        assert_eq!(all, [(1, Err(late_answer)), (2, Err(cannot))]);
        std::thread::sleep(Duration::from_secs(3));
        assert!(!late.exists());
    }

    #[test]
    fn provider_that_panics_refuses_one_request_only() {
        struct Fragile;
        #[async_trait]
        impl NodeProvider for Fragile {
            fn can(&self) -> NodeActionKinds {
                NodeActionKinds::ALL
            }
            async fn resume(&self, _: &NodeRequest) -> Result<(), ProviderError> {
                panic!("fragile");
            }
            async fn suspend(&self, _: &NodeRequest) -> Result<(), ProviderError> {
                Ok(())
            }
        }
        let requests = vec![
            request(1, NodeActionKind::PowerOn),
            request(2, NodeActionKind::PowerOff),
        ];
        let all = answers(Fragile, requests);
        let panicked = Err("the provider panicked".to_owned());
        assert_eq!(all, [(1, panicked), (2, Ok(()))]);
    }

    #[test]
    fn shown_output_is_the_end_of_the_last_line() {
        assert_eq!(end_of(b"a\nb \n"), "b");
        assert_eq!(end_of(b""), "");
        let long = "é".repeat(SHOWN);
        assert_eq!(end_of(long.as_bytes()), "é".repeat(SHOWN / 2));
    }
}
