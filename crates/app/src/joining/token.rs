//! What a machine that joins is told: `ID.SECRET.PIN@HOST:PORT`. The first two are a bootstrap token;
//! the third is the SHA-256 of the key of the cluster's authority. Pure.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use authn::bootstrap::BootstrapToken;

const PIN_DIGITS: usize = 64;
/// As kubeadm writes pins.
const PIN_PREFIX: &str = "sha256:";

/// A token, and whose authority it is for, if that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinToken {
    pub(crate) bootstrap: BootstrapToken,
    pub(crate) pin: Option<String>,
}

impl JoinToken {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (bootstrap, pin) = match text.match_indices('.').nth(1) {
            Some((at, _)) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let bootstrap = BootstrapToken::parse(bootstrap).ok_or(
            "this is no token: it has the form ID.SECRET.PIN, or ID.SECRET with --ca-cert-hash, as `xebec token create` \
             prints it",
        )?;
        Ok(Self { bootstrap, pin: pin.map(parse_digits).transpose()? })
    }

    /// As it is printed, and parsed again.
    pub(crate) fn render(&self) -> String {
        let BootstrapToken { id, secret } = &self.bootstrap;
        match &self.pin {
            Some(pin) => format!("{id}.{secret}.{pin}"),
            None => format!("{id}.{secret}"),
        }
    }
}

fn parse_digits(text: &str) -> Result<String, String> {
    let is_pin = text.len() == PIN_DIGITS && text.bytes().all(|it| it.is_ascii_hexdigit());
    let pin = is_pin.then(|| text.to_ascii_lowercase());
    pin.ok_or_else(|| {
        format!("the last part of the token is not {PIN_DIGITS} hexadecimal digits: is it whole?")
    })
}

/// `sha256:DIGITS`, for `--ca-cert-hash`.
pub(crate) fn parse_pin(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix(PIN_PREFIX).ok_or("expected sha256:DIGITS")?;
    parse_digits(digits).map_err(|_| format!("expected {PIN_PREFIX} and {PIN_DIGITS} digits"))
}

/// Where an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

const PORT: u16 = 6443;

impl Place {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no HOST:PORT, such as 192.0.2.1:6443");
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(Self { host: address.to_string(), port: PORT });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, PORT),
        };
        let is_name = apimachinery::validation::is_dns_subdomain(host).is_empty();
        let is_whole = is_name && port != 0;
        is_whole.then(|| Self { host: host.to_owned(), port }).ok_or_else(wrong)
    }

    /// Of a URL such as kubeconfigs have.
    pub(crate) fn of_url(url: &str) -> Result<Self, String> {
        let place = url.strip_prefix("https://").ok_or_else(|| format!("{url:?} is not HTTPS"))?;
        Self::parse(place.trim_end_matches('/'))
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// `TOKEN@HOST:PORT`, or `HOST:PORT` where the token is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) token: Option<JoinToken>,
    pub(crate) place: Place,
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (token, place) = match text.rsplit_once('@') {
            Some((token, place)) => (Some(JoinToken::parse(token)?), place),
            None if JoinToken::parse(text).is_ok() => {
                return Err("say where the cluster is: TOKEN@HOST:PORT".to_owned());
            }
            None => (None, text),
        };
        Ok(Self { token, place: Place::parse(place)? })
    }
}

#[cfg(test)]
mod tests {
    use super::{JoinToken, Place, Target, parse_pin};

    const BARE: &str = "abcdef.0123456789abcdef";

    #[test]
    fn a_token_is_read_as_it_is_printed() {
        let pin = "ab".repeat(32);
        let check = |text: &str, expected: Option<Option<&str>>| {
            let parsed = JoinToken::parse(text);
            assert_eq!(parsed.as_ref().ok().map(|it| it.pin.as_deref()), expected, "{text}");
            assert!(parsed.is_err() || parsed.unwrap().render() == text);
        };
        check(BARE, Some(None));
        check(&format!("{BARE}.{pin}"), Some(Some(&pin)));
        for wrong in [
            "",
            "abcdef",
            "ABCDEF.0123456789abcdef",
            &format!("{BARE}."),
            &format!("{BARE}.{pin}0"),
        ] {
            check(wrong, None);
        }
        assert_eq!(parse_pin(&format!("sha256:{pin}")), Ok(pin.clone()));
        assert!(parse_pin(&pin).is_err() && parse_pin("sha256:").is_err());
    }

    #[test]
    fn a_place_is_an_address_or_a_name_with_a_port() {
        let check = |text: &str, expected: &str| {
            let found = Place::parse(text).map(|it| it.to_string());
            assert_eq!(found.unwrap_or_else(|_| "none".to_owned()), expected, "{text}");
        };
        check("192.0.2.1:7443", "192.0.2.1:7443");
        check("192.0.2.1", "192.0.2.1:6443");
        check("[fd00::1]:6443", "[fd00::1]:6443");
        check("fd00::1", "[fd00::1]:6443");
        check("api.example.test", "api.example.test:6443");
        for wrong in ["", "a b", "host:port", "host:0", "https://host", "host:1:2"] {
            check(wrong, "none");
        }
        assert_eq!(Place::of_url("https://[fd00::1]:1").unwrap().url(), "https://[fd00::1]:1");
        assert!(Place::of_url("http://a:1").is_err());
    }

    #[test]
    fn a_target_may_have_its_token_elsewhere() {
        let target = Target::parse(&format!("{BARE}@192.0.2.1:6443")).unwrap();
        assert_eq!(target.token, JoinToken::parse(BARE).ok());
        assert_eq!(Target::parse("192.0.2.1:6443").unwrap().token, None);
        assert!(Target::parse(BARE).unwrap_err().contains("TOKEN@HOST:PORT"));
        assert!(Target::parse("nonsense@192.0.2.1").is_err());
    }
}
