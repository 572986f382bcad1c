//! Commands for certificates and rights.

use super::args::{CreateTokenArgs, InitArgs, LoginArgs, NodesArgs, RevokeArgs, TokenCommand};
use super::cells::client;
use super::commands::{confirm, print};
use super::daemons::{host, runtime, stored_identity};
use super::joining::{from_input, invitation};
use crate::failure::{Code, Failure};
use crate::terminal::Terminal;
use crate::text::plain;
use crate::trace::info::date;
use blox_cluster::client;
use blox_cluster::identity::Role;
use blox_cluster::identity::authority::Authority;
use serde_json::json;

/// Creates the authority of a cluster.
pub(super) fn init(a: InitArgs, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let mut hosts = a.host;
    if hosts.is_empty() {
        hosts.push(host());
    }
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    hosts.sort();
    hosts.dedup();
    let user = || std::env::var("USER").ok();
    let admin = a.admin.or_else(user).unwrap_or_else(|| "admin".to_owned());
    let authority = Authority::create(&a.dir, &hosts, &admin)?;
    let dir = a.dir.display();
    writeln!(
        terminal.out,
        "authority   {}\nhosts       {}\nscheduler   blox scheduler --identity {dir} --listen 0.0.0.0:7070 --state-dir DIR\n{admin}: admin, export BLOX_IDENTITY={dir}/admin.pem",
        authority.fingerprint(),
        plain(&hosts.join(", ")),
    )?;
    Ok(())
}

/// Gets a certificate for a token.
pub(super) fn login(a: LoginArgs, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let token = match invitation(a.token.as_deref(), terminal.input)? {
        Some(token) => token,
        None => {
            if terminal.prompts {
                writeln!(terminal.err, "token of `blox token create`:")?;
            }
            from_input(terminal.input)?
        }
    };
    let file = match a.identity {
        Some(file) => file,
        None => stored_identity(&a.at).ok_or_else(|| {
            Failure::new("neither $XDG_STATE_HOME nor $HOME is set: give --identity FILE")
        })?,
    };
    let (name, role) = {
        let host = host();
        let joined = client::join(&a.at, &token, "", &host, &file);
        runtime()?.block_on(joined)?
    };
    let (name, role) = (plain(&name), plain(&role));
    writeln!(
        terminal.out,
        "{name} is {role} at {}, with {}",
        a.at,
        file.display()
    )?;
    Ok(())
}

/// Creates a token or revokes certificates.
pub(super) fn token(command: TokenCommand, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    runtime()?.block_on(change(command, terminal))
}

async fn change(command: TokenCommand, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(CreateTokenArgs {
            at,
            role,
            name,
            valid,
            json,
        }) => {
            let role: Role = role.parse()?;
            let seconds = valid.0.max(0.0) as u64;
            let mut client = client(&at).await?;
            let token = client.create_token(role, name, seconds).await?;
            match json {
                true => print(terminal, &json!({"token": token})),
                false => Ok(writeln!(terminal.out, "{token}")?),
            }
        }
        TokenCommand::Revoke(RevokeArgs { at, what, json }) => {
            let reply = client(&at).await?.revoke(what.clone()).await?;
            if reply.unknown {
                let near = match plain(&reply.nearest) {
                    near if near.is_empty() => "; c".to_owned(),
                    near => format!(", did you mean `{near}`? C"),
                };
                let text = format!(
                    "no certificate and no token of `{}` is known{near}ertificates of this name until now are refused all the same",
                    plain(&what)
                );
                return Err(Failure::of(Code::Request, text));
            }
            if !json {
                let what = plain(&what);
                writeln!(
                    terminal.err,
                    "certificates and tokens of {what} are refused from now on"
                )?;
            }
            confirm(json, &json!({"revoked": what}), terminal)
        }
    }
}

/// Shows name and role of the user.
pub(super) fn whoami(a: NodesArgs, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let who = async { Ok::<_, Failure>(client(&a.at).await?.who_am_i().await?) };
    let who = runtime()?.block_on(who)?;
    if a.json {
        let who = json!({
            "name": who.name, "role": who.role, "until_s": who.until_s, "serial": who.serial,
        });
        return print(terminal, &who);
    }
    let line = match who.name.is_empty() {
        true => "this scheduler gives no names: all of its users have all rights".to_owned(),
        false => {
            let (name, role) = (plain(&who.name), plain(&who.role));
            let (until, serial) = (date(who.until_s as f64), plain(&who.serial));
            format!("{name} is {role} until {until}, with certificate {serial}")
        }
    };
    Ok(writeln!(terminal.out, "{line}")?)
}
