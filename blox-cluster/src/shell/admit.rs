//! Authentication and rights of each call, and its line in the audit log.

use super::listen::Peer;
use super::notes::Notes;
use super::token::Token;
use crate::excerpt::excerpt;
use crate::identity::Principal;
use crate::identity::access::{Right, is_recorded, right};
use crate::identity::authority::Authority;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// Longest message of a refusal, in characters. A client refuses headers above 16 KiB, and a
/// character takes up to 12 bytes there.
const LONGEST: usize = 1_000;

/// Returns a refusal whose message fits into a header.
pub(super) fn brief(status: Status) -> Status {
    match excerpt(status.message(), LONGEST) {
        Cow::Borrowed(_) => status,
        Cow::Owned(text) => Status::new(status.code(), text),
    }
}

/// The caller of a method.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// A holder of the shared token, or anyone if there is none. All have all rights.
    Shared,
    /// The holder of a certificate.
    Named(Principal),
}

impl Caller {
    /// Returns the caller of a request.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get::<Caller>().cloned();
        found.ok_or_else(|| Status::unauthenticated("the caller is unknown"))
    }

    /// Returns the name of the caller if it has only the rights of an owner.
    pub fn owner(&self, method: &str) -> Option<&str> {
        match self {
            Caller::Named(who) if right(method, who.role) == Right::Own => Some(&who.name),
            _ => None,
        }
    }
}

/// Object of a call, such as `job 3`, for its line in the audit log.
#[derive(Clone, Default)]
pub(super) struct Object(Arc<Mutex<String>>);

impl Object {
    /// Sets the object of a request.
    pub fn of<T>(request: &tonic::Request<T>, text: impl Into<String>) {
        if let Some(object) = request.extensions().get::<Object>() {
            *object.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
        }
    }

    fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }
}

/// Requirements of the scheduler.
#[derive(Clone)]
pub(super) struct Guard {
    pub token: Token,
    pub authority: Option<Arc<Authority>>,
    pub notes: Notes,
}

impl Guard {
    /// Returns why the holder of a certificate is refused from now on, if it is.
    pub fn refuses(&self, caller: &Caller) -> Option<&'static str> {
        let (Some(authority), Caller::Named(who)) = (&self.authority, caller) else {
            return None;
        };
        authority.refuses(who)
    }

    fn admit(
        &self,
        peer: &Peer,
        method: &str,
        headers: &http::HeaderMap,
    ) -> Result<Caller, (&'static str, Status)> {
        if self.authority.is_none() {
            let admitted = self.token.check(headers.get(super::token::HEADER));
            return admitted.map(|()| Caller::Shared);
        }
        let Some(who) = peer.principal.clone() else {
            let text = "this scheduler asks for a certificate: `blox login` or `blox node --join` gets one";
            return Err(("no_certificate", Status::unauthenticated(text)));
        };
        let caller = Caller::Named(who.clone());
        if let Some(why) = self.refuses(&caller) {
            let label = match why.contains("revoked") {
                true => "revoked",
                false => "expired",
            };
            return Err((label, Status::unauthenticated(why)));
        }
        if right(method, who.role) == Right::No {
            let text = format!(
                "{} is {}, which has no right to {method}",
                who.name, who.role
            );
            return Err(("role", Status::permission_denied(text)));
        }
        Ok(caller)
    }
}

/// A service behind a guard.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    inner: S,
    guard: Guard,
}

impl<S> Guarded<S> {
    pub fn new(inner: S, guard: Guard) -> Self {
        Guarded { inner, guard }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path().trim_start_matches('/');
        let method = path.strip_prefix("blox.cluster.v1.").unwrap_or(path);
        let method = method.to_owned();
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            let status = Status::unauthenticated("the connection is unknown");
            return Box::pin(async move { Ok(status.into_http()) });
        };
        let caller = match self.guard.admit(&peer, &method, request.headers()) {
            Ok(caller) => caller,
            Err((label, status)) => {
                let status = brief(status);
                let notes = &self.guard.notes;
                notes.refused(
                    peer.address,
                    peer.principal.as_ref(),
                    &method,
                    label,
                    status.message(),
                );
                return Box::pin(async move { Ok(status.into_http()) });
            }
        };
        // The connection has no more time limit.
        peer.admit();
        let object = Object::default();
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(object.clone());
        let answer = self.inner.call(request);
        let notes = self.guard.notes.clone();
        Box::pin(async move {
            let mut answer = answer.await;
            if let Ok(response) = &mut answer {
                let failed = Status::from_header_map(response.headers());
                let failed = failed.filter(|status| status.code() != tonic::Code::Ok);
                let failed = failed.map(brief);
                if let Some(status) = &failed {
                    *response = status.clone().into_http();
                }
                let denied = failed
                    .as_ref()
                    .is_some_and(|s| s.code() == tonic::Code::PermissionDenied);
                let why = failed.as_ref().map(Status::message);
                if denied {
                    let ip = peer.address.ip();
                    notes
                        .refusals
                        .add(Some(ip), "owner", why.unwrap_or_default());
                }
                if denied || is_recorded(&method) {
                    notes.line(
                        peer.address,
                        peer.principal.as_ref(),
                        &method,
                        &object.text(),
                        why,
                    );
                }
            }
            answer
        })
    }
}
