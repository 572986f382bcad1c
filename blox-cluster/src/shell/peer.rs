//! Owner of a local server, which is examined before it receives a secret.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Returns the users that own the listening sockets of a loopback address; `None` if the system
/// does not list sockets.
fn owners(at: SocketAddr) -> Option<Vec<u32>> {
    let text: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let lines = text.iter().flat_map(|text| text.lines().skip(1));
    let owners = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, uid) = (fields.get(1)?, fields.get(3)?, fields.get(7)?);
        let (ip, port) = address(local)?;
        let serves = ip.is_unspecified() || ip.to_canonical() == at.ip().to_canonical();
        (*state == LISTENING && port == at.port() && serves).then(|| uid.parse().ok())?
    });
    (!text.is_empty()).then(|| owners.collect())
}

/// Reads an address as `/proc/net/tcp` and `/proc/net/tcp6` write it: words of the host in
/// hexadecimal digits.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<u32>> = (0..ip.len() / 8)
        .map(|i| u32::from_str_radix(ip.get(i * 8..i * 8 + 8)?, 16).ok())
        .collect();
    let ip = match words?[..] {
        [word] => Ipv4Addr::from(word.to_ne_bytes()).into(),
        [a, b, c, d] => {
            let mut bytes = [0; 16];
            for (to, word) in bytes.chunks_mut(4).zip([a, b, c, d]) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some((ip, port))
}

/// Returns the user that owns the server at a loopback address, if it is not one of `trusted` or
/// root. A secret would reach this user.
pub(crate) fn stranger(at: SocketAddr, trusted: &[u32]) -> Option<u32> {
    if !at.ip().is_loopback() {
        return None;
    }
    let strange = |uid: &u32| *uid != 0 && !trusted.contains(uid);
    owners(at)?.into_iter().find(strange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private;

    #[test]
    fn a_local_server_of_another_user_is_a_stranger() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let own = private::user().unwrap();
        assert_eq!(owners(at), Some(vec![own]));
        assert_eq!(stranger(at, &[own]), None);
        let strange = (own != 0).then_some(own);
        assert_eq!(stranger(at, &[own + 1]), strange);
        drop(listener);
        assert_eq!(owners(at), Some(Vec::new()));
    }

    #[test]
    fn addresses_of_the_system_are_read() {
        if cfg!(target_endian = "little") {
            let v4 = address("0100007F:1B9E");
            assert_eq!(v4, Some((Ipv4Addr::LOCALHOST.into(), 7070)));
            let v6 = address("00000000000000000000000001000000:1B9E");
            assert_eq!(v6, Some((Ipv6Addr::LOCALHOST.into(), 7070)));
        }
        assert_eq!(address("rubbish"), None);
    }
}
