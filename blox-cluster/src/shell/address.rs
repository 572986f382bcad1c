//! The address at which other nodes reach a node, and addresses that limits count.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use tokio::net::{UdpSocket, lookup_host};

/// Addresses of a connection to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Local address of the connection.
    pub local: IpAddr,
    /// Address of the scheduler.
    pub remote: IpAddr,
}

/// Returns the addresses of a connection to the scheduler at `http://host:port`. The kernel chooses
/// the local address by its routes; nothing is sent.
///
/// # Errors
/// The scheduler's name is unknown, or no route leads to it.
pub async fn toward(scheduler: &str) -> io::Result<Route> {
    let at = scheduler.trim_start_matches("http://");
    let mut last = io::Error::other("the name has no address");
    for remote in lookup_host(at).await? {
        let any = match remote {
            std::net::SocketAddr::V4(_) => "0.0.0.0:0",
            std::net::SocketAddr::V6(_) => "[::]:0",
        };
        let socket = UdpSocket::bind(any).await?;
        match socket
            .connect(remote)
            .await
            .and_then(|()| socket.local_addr())
        {
            Ok(local) => {
                return Ok(Route {
                    local: local.ip().to_canonical(),
                    remote: remote.ip().to_canonical(),
                });
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Checks that other nodes can reach a node by its address.
///
/// # Errors
/// The address is a loopback address, and the scheduler runs on another machine.
pub fn check(address: &str, route: Route) -> Result<(), String> {
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = match bare.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    };
    // A connection to another address of this machine has this address at both ends.
    let is_here = route.remote.is_loopback() || route.remote == route.local;
    match is_loopback && !is_here {
        false => Ok(()),
        true => Err(format!(
            "--address is {address}, which leads other nodes back to themselves, and the scheduler runs on another machine ({}): leave --address out to use {}",
            route.remote, route.local
        )),
    }
}

/// Returns the address that limits count. An IPv6 host has a whole network of 64 bits.
pub(super) fn group(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(local: &str, remote: &str) -> Route {
        Route {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        }
    }

    #[test]
    fn loopback_address_needs_a_scheduler_on_this_host() {
        let far = route("10.0.0.2", "10.0.0.1");
        for address in ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"] {
            let why = check(address, far).unwrap_err();
            assert_eq!(
                why,
                format!(
                    "--address is {address}, which leads other nodes back to themselves, and the scheduler runs on another machine (10.0.0.1): leave --address out to use 10.0.0.2"
                )
            );
            assert_eq!(check(address, route("127.0.0.1", "127.0.0.1")), Ok(()));
            assert_eq!(check(address, route("10.0.0.2", "10.0.0.2")), Ok(()));
        }
        for address in ["10.0.0.2", "node-7", "fe80::1"] {
            assert_eq!(check(address, far), Ok(()));
        }
    }

    #[tokio::test]
    async fn local_address_follows_the_route_to_the_scheduler() {
        let found = toward("http://127.0.0.1:7070").await.unwrap();
        assert_eq!(found, route("127.0.0.1", "127.0.0.1"));
        // A whole network is local.
        let found = toward("http://127.9.9.9:7070").await.unwrap();
        assert!(found.local.is_loopback(), "{found:?}");
        assert!(toward("http://no.such.host.invalid:1").await.is_err());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let ip = |text: &str| group(text.parse().unwrap());
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::ffff:1"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
    }
}
