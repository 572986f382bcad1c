//! Services for names and rights, and checks of what belongs to a caller.

use super::admit::{Caller, Guard, Object, brief};
use super::listen::Peer;
use super::scheduler::Handle;
use crate::identity::authority::{Authority, Revoked};
use crate::identity::{IdentityError, Role};
use crate::protocol::scheduler::Controller;
use crate::protocol::{Millis, Report};
use crate::wire::pb;
use blox_core::JobId;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::{Request, Response, Status};

/// A response, or the error that a client receives.
type Answer<T> = Result<Response<T>, Status>;

/// Longest validity of a token to join in seconds: 30 days.
const LONGEST_TOKEN_S: u64 = 30 * 86_400;

/// Returns the user of a submitted job. A caller with the rights of an owner submits in its own
/// name.
pub(super) fn submitter(caller: &Caller, wanted: String) -> Result<String, Status> {
    let Caller::Named(who) = caller else {
        return Ok(wanted);
    };
    if wanted.is_empty() || wanted == who.name {
        return Ok(who.name.clone());
    }
    match caller.owner("Jobs/Submit") {
        None => Ok(wanted),
        Some(name) => Err(Status::permission_denied(format!(
            "user is `{wanted}`, expected `{name}`: only an operator submits for others"
        ))),
    }
}

/// The node of a stream.
#[derive(Clone)]
pub(super) struct NodeOf {
    caller: Caller,
    peer: Option<Peer>,
    handle: Handle,
    guard: Guard,
    /// The persistent name that was checked before.
    checked: Arc<Mutex<Option<String>>>,
}

impl NodeOf {
    pub fn of<T>(request: &Request<T>, handle: &Handle, guard: &Guard) -> Result<Self, Status> {
        Ok(NodeOf {
            caller: Caller::of(request)?,
            peer: request.extensions().get::<Peer>().cloned(),
            handle: handle.clone(),
            guard: guard.clone(),
            checked: Arc::default(),
        })
    }

    fn refused(&self, label: &'static str, why: &str) {
        if let Some(peer) = &self.peer {
            let notes = &self.guard.notes;
            notes.refused(
                peer.address,
                peer.principal.as_ref(),
                "NodeLink/Link",
                label,
                why,
            );
        }
    }

    /// Checks that a report is of the certificate's node, and that the certificate is still valid.
    pub async fn sends(&self, report: &Report) -> Result<(), Status> {
        let Caller::Named(who) = &self.caller else {
            return Ok(());
        };
        if let Some(why) = self.guard.refuses(&self.caller) {
            self.refused("revoked", why);
            return Err(Status::unauthenticated(why));
        }
        let offered = report.offer.name.as_ref().map_or("", |name| name.as_str());
        let is_own = offered == who.name && self.owns(report.node.as_str()).await;
        if !is_own {
            let text = format!(
                "the certificate is of node {}, and may not act as node {offered}",
                who.name
            );
            self.refused("other_node", &text);
            return Err(Status::permission_denied(text));
        }
        Ok(())
    }

    /// Returns true if no other node has this persistent name.
    pub async fn owns(&self, key: &str) -> bool {
        let Caller::Named(who) = &self.caller else {
            return true;
        };
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked().as_deref() == Some(key) {
            return true;
        }
        let wanted = key.to_owned();
        let find = move |s: &Controller, _: Millis| {
            let nodes = &s.launches().durable().nodes;
            let id = nodes
                .iter()
                .find(|(_, node)| node.key.as_str() == wanted)?
                .0;
            let view = s.view();
            let node = view.node(*id)?;
            node.spec().name.as_ref().map(|name| name.to_string())
        };
        match self.handle.look(find).await {
            Some(Some(name)) if name != who.name => false,
            Some(_) => {
                *checked() = Some(key.to_owned());
                true
            }
            None => false,
        }
    }
}

/// Returns the user of a job, if there is such a job.
async fn user_of(handle: &Handle, job: JobId) -> Result<Option<String>, Status> {
    let look = move |s: &Controller, _: Millis| {
        let brief = s.launches().durable().jobs.get(&job);
        brief.map(|brief| brief.user.clone())
    };
    let live = handle.look(look).await.ok_or_else(|| handle.gone())?;
    match live {
        Some(user) => Ok(Some(user)),
        None => Ok(handle.archived(job).await?.map(|past| past.brief.user)),
    }
}

/// Returns an error if the caller may call the method only for its own jobs, and the job is of another
/// user.
pub(super) async fn own(
    handle: &Handle,
    caller: &Caller,
    method: &str,
    job: JobId,
) -> Result<(), Status> {
    let Some(name) = caller.owner(method) else {
        return Ok(());
    };
    match user_of(handle, job).await? {
        Some(user) if user != name => Err(Status::permission_denied(format!(
            "job {job} is of user {user}, and {name} has rights to own jobs only"
        ))),
        // The method itself answers for a job that does not exist.
        _ => Ok(()),
    }
}

/// The services for names and rights.
#[derive(Clone)]
pub(super) struct Names(pub Guard);

impl Names {
    fn authority(&self) -> Result<&Arc<Authority>, Status> {
        let none = || {
            Status::failed_precondition("this scheduler has no authority: start it with --identity")
        };
        self.0.authority.as_ref().ok_or_else(none)
    }
}

fn failed(error: &IdentityError) -> Status {
    brief(match error {
        IdentityError::Io { .. } => Status::resource_exhausted(error.to_string()),
        IdentityError::Refused(why) => Status::permission_denied(*why),
        IdentityError::Invalid(why) => Status::invalid_argument(why),
    })
}

#[tonic::async_trait]
impl pb::entry_server::Entry for Names {
    async fn join(&self, request: Request<pb::JoinRequest>) -> Answer<pb::CertificateReply> {
        let authority = self.authority()?;
        let peer = request.extensions().get::<Peer>().cloned();
        let wanted = request.into_inner();
        let issued = authority.join(&wanted.secret, &wanted.name, &wanted.host, &wanted.request);
        let notes = &self.0.notes;
        match issued {
            Ok((role, name, chain)) => {
                if let Some(peer) = &peer {
                    notes.line(
                        peer.address,
                        None,
                        "Entry/Join",
                        &format!("{role} {name}"),
                        None,
                    );
                }
                Ok(Response::new(pb::CertificateReply {
                    chain,
                    name,
                    role: role.to_string(),
                }))
            }
            Err(error) => {
                if let Some(peer) = &peer {
                    let label = match &error {
                        IdentityError::Refused(_) => "join_token",
                        _ => "join_request",
                    };
                    notes.refused(peer.address, None, "Entry/Join", label, &error.to_string());
                }
                Err(failed(&error))
            }
        }
    }
}

#[tonic::async_trait]
impl pb::access_server::Access for Names {
    async fn who_am_i(&self, request: Request<pb::WhoAmIRequest>) -> Answer<pb::WhoAmIReply> {
        let reply = match Caller::of(&request)? {
            Caller::Shared => pb::WhoAmIReply::default(),
            Caller::Named(who) => pb::WhoAmIReply {
                name: who.name,
                role: who.role.to_string(),
                until_s: who.until_s,
                serial: who.serial,
            },
        };
        Ok(Response::new(reply))
    }

    async fn renew(&self, request: Request<pb::RenewRequest>) -> Answer<pb::CertificateReply> {
        let authority = self.authority()?;
        let Caller::Named(who) = Caller::of(&request)? else {
            return Err(Status::failed_precondition("the caller has no certificate"));
        };
        let chain = authority.issue(&request.get_ref().request, &who.name, who.role);
        Ok(Response::new(pb::CertificateReply {
            chain: chain.map_err(|e| failed(&e))?,
            name: who.name,
            role: who.role.to_string(),
        }))
    }

    async fn create_token(
        &self,
        request: Request<pb::CreateTokenRequest>,
    ) -> Answer<pb::CreateTokenReply> {
        let authority = self.authority()?;
        let wanted = request.get_ref();
        Object::of(&request, format!("{} {}", wanted.role, wanted.name));
        let role: Role = wanted.role.parse().map_err(|e| failed(&e))?;
        if !(1..=LONGEST_TOKEN_S).contains(&wanted.seconds) {
            let found = wanted.seconds;
            return Err(Status::invalid_argument(format!(
                "seconds is {found}, expected 1 to {LONGEST_TOKEN_S}"
            )));
        }
        let name = Some(wanted.name.as_str()).filter(|name| !name.is_empty());
        let token = authority.invite(role, name, wanted.seconds);
        let token = token.map_err(|e| failed(&e))?.to_string();
        Ok(Response::new(pb::CreateTokenReply { token }))
    }

    async fn revoke(&self, request: Request<pb::RevokeRequest>) -> Answer<pb::RevokeReply> {
        let authority = self.authority()?;
        let what = &request.get_ref().what;
        Object::of(&request, what.as_str());
        let reply = match authority.revoke(what).map_err(|e| failed(&e))? {
            Revoked::Known => pb::RevokeReply::default(),
            Revoked::Unknown(near) => pb::RevokeReply {
                unknown: true,
                nearest: near.unwrap_or_default(),
            },
        };
        Ok(Response::new(reply))
    }
}
