//! Who may ask.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};

use crate::error::ServeError;

/// What a question must bring along.
///
/// # Guarantee
/// A page of another site can neither read nor cause an answer: it does not know the token, which has 128 random bits; it cannot hide its
/// name (`Origin`); and a name of its own that it points to this machine is not this server's name (`Host`).
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    hosts: [String; 2],
}

/// Why a question is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    /// The token is missing or wrong.
    Token,
    /// It was asked under another name, or by another page.
    Sender,
}

impl Guard {
    /// A guard with a new token, for a server on this port of this machine.
    ///
    /// # Errors
    /// A system without random numbers.
    pub(crate) fn new(port: u16) -> Result<Self, ServeError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| ServeError::Random(error.to_string()))?;
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Ok(Self { token: dapple_plan::number::hexadecimal(&bytes), hosts })
    }

    /// The address of the page.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/?token={}", self.hosts[0], self.token)
    }

    /// Whether somebody who sends these headers may be answered at all.
    ///
    /// # Errors
    /// Another name of this machine, or another page.
    pub(crate) fn admit_sender(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let mut host = headers.get_all(HOST).iter();
        let named = host.next().and_then(|host| host.to_str().ok());
        let named = named.filter(|named| host.next().is_none() && self.hosts.iter().any(|own| own == named));
        let Some(named) = named else { return Err(GuardRefusal::Sender) };
        let own_page =
            |origin: &axum::http::HeaderValue| origin.as_bytes() == format!("http://{named}").as_bytes();
        match headers.get_all(ORIGIN).iter().all(own_page) {
            true => Ok(()),
            false => Err(GuardRefusal::Sender),
        }
    }

    /// Whether a question brings the token in its header `Authorization: Bearer`.
    ///
    /// # Errors
    /// No token, another one, or several.
    pub(crate) fn admit_bearer(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = given.next().and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        match (token, given.next()) {
            (Some(token), None) => self.admit_token(token),
            _ => Err(GuardRefusal::Token),
        }
    }

    /// Whether this is the token.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn admit_token(&self, token: &str) -> Result<(), GuardRefusal> {
        // As long for every wrong token, so that time tells nothing of the right one.
        let differing =
            token.bytes().zip(self.token.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        if token.len() != self.token.len() || differing != 0 { Err(GuardRefusal::Token) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_page_is_asked_by_itself_alone() {
        let guard = Guard::new(4000).unwrap();
        let admit = |pairs: &[(&'static str, &str)]| guard.admit_sender(&headers(pairs));
        for fine in [
            &[("host", "127.0.0.1:4000")][..],
            &[("host", "localhost:4000")],
            &[("host", "localhost:4000"), ("origin", "http://localhost:4000")],
        ] {
            assert_eq!(admit(fine), Ok(()), "{fine:?}");
        }
        for other in [
            &[][..],
            &[("host", "example.org:4000")],
            &[("host", "127.0.0.1:4001")],
            &[("host", "127.0.0.1")],
            &[("host", "127.0.0.1:4000"), ("host", "example.org")],
            &[("host", "127.0.0.1:4000"), ("origin", "http://localhost:4000")],
            &[("host", "127.0.0.1:4000"), ("origin", "http://example.org")],
            &[("host", "127.0.0.1:4000"), ("origin", "null")],
            &[("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:4000"), ("origin", "null")],
        ] {
            assert_eq!(admit(other), Err(GuardRefusal::Sender), "{other:?}");
        }
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, other) = (Guard::new(1).unwrap(), Guard::new(1).unwrap());
        assert_eq!(one.token.len(), 32);
        for wrong in [other.token.as_str(), "", &one.token[1..], &format!("{}0", one.token)] {
            assert_eq!(one.admit_token(wrong), Err(GuardRefusal::Token));
            let bearer = format!("Bearer {wrong}");
            assert_eq!(one.admit_bearer(&headers(&[("authorization", &bearer)])), Err(GuardRefusal::Token));
        }
        let own = format!("Bearer {}", one.token);
        assert_eq!(one.admit_bearer(&headers(&[("authorization", &own)])), Ok(()));
        for wrong in [
            &[][..],
            &[("authorization", one.token.as_str())],
            &[("authorization", &own), ("authorization", &own)],
        ] {
            assert_eq!(one.admit_bearer(&headers(wrong)), Err(GuardRefusal::Token), "{wrong:?}");
        }
        assert_eq!(one.address(), format!("http://127.0.0.1:1/?token={}", one.token));
    }
}
