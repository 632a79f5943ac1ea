//! Who asks whom, as it was typed.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use apimachinery::ObjectKey;
use network::policy::model::Protocol;
use network::policy::why::{End, Objects};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) protocol: Protocol,
    port: Port,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    Number(u16),
    Named(String),
}

const FORM: &str = "say who asks whom as FROM TO:PORT, such as default/web-0 db/postgres-0:5432";

impl Question {
    pub(super) fn parse(words: &[String], namespace: &str) -> Result<Self> {
        let text = words.join(" ");
        let words: Vec<&str> = text.split_whitespace().filter(|it| *it != "->").collect();
        if words.last() == Some(&"-") {
            bail!("{FORM}; with an arrow, in quotes: the shell takes > for itself");
        }
        let [from, to] = words[..] else { bail!("{FORM}") };
        let (to, protocol) = match to.rsplit_once('/') {
            Some((rest, name)) if Protocol::named(&name.to_ascii_uppercase()).is_some() => {
                (rest, Protocol::named(&name.to_ascii_uppercase()).unwrap_or(Protocol::Tcp))
            }
            _ => (to, Protocol::Tcp),
        };
        let (to, port) =
            to.rsplit_once(':').with_context(|| format!("{to:?} has no port: {FORM}"))?;
        let to = to.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(to);
        let port = match port.parse() {
            Ok(0) | Err(_) if port.bytes().all(|it| it.is_ascii_digit()) => {
                bail!("port {port:?} is not between 1 and 65535")
            }
            Ok(number) => Port::Number(number),
            Err(_) => Port::Named(port.to_owned()),
        };
        Ok(Self { from: end(from, namespace)?, to: end(to, namespace)?, protocol, port })
    }

    /// As the pod that is asked has it.
    pub(super) fn port_number(&self, objects: &Objects) -> Result<u16> {
        let name = match &self.port {
            Port::Number(number) => return Ok(*number),
            Port::Named(name) => name,
        };
        let End::Pod(key) = &self.to else { bail!("an address gives no port the name {name:?}") };
        let ports = objects.pods.get(key).into_iter().flat_map(|it| &it.ports);
        let mut ports = ports.filter(|it| it.name.as_str() == name && it.protocol == self.protocol);
        let port = ports.next().map(|it| it.number);
        port.with_context(|| {
            format!("pod {key} has no {} port with the name {name:?}", self.protocol)
        })
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &ObjectKey> {
        [&self.from, &self.to].into_iter().filter_map(|it| match it {
            End::Pod(key) => Some(key),
            End::Address(_) => None,
        })
    }
}

fn end(text: &str, namespace: &str) -> Result<End> {
    if let Ok(address) = text.parse() {
        return Ok(End::Address(address));
    }
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    let is_name = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.".contains(&it))
    };
    if !is_name(namespace) || !is_name(name) {
        bail!("{text:?} is no pod and no address: {FORM}");
    }
    Ok(End::Pod(ObjectKey::new(namespace, name)))
}

pub(super) fn shown(end: &End) -> String {
    match end {
        End::Pod(key) => key.to_string(),
        End::Address(address) => address.to_string(),
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", shown(&self.from), shown(&self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Question> {
        Question::parse(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), "default")
    }

    #[test]
    fn who_asks_whom_is_typed_in_several_ways() {
        let check = |words: &[&str], from: &str, to: &str, protocol, port: Port| {
            let question = parse(words).unwrap();
            assert_eq!((&*shown(&question.from), &*shown(&question.to)), (from, to), "{words:?}");
            assert_eq!((question.protocol, question.port), (protocol, port), "{words:?}");
        };
        let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
        check(&["a", "x/b:80"], "default/a", "x/b", tcp, Port::Number(80));
        check(&["x/a -> y/b:53/udp"], "x/a", "y/b", udp, Port::Number(53));
        check(&["x/a", "->", "y/b:http"], "x/a", "y/b", tcp, Port::Named("http".into()));
        check(&["10.0.0.1", "[fd00::1]:80"], "10.0.0.1", "fd00::1", tcp, Port::Number(80));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let check = |words: &[&str], expected: &str| {
            let err = parse(words).unwrap_err().to_string();
            assert!(err.contains(expected), "{words:?}: {err}");
        };
        check(&["a"], "FROM TO:PORT");
        check(&["x/a", "-"], "the shell takes >");
        check(&["a", "b"], "has no port");
        check(&["a", "b:0"], "not between 1 and 65535");
        check(&["a", "b:70000"], "not between 1 and 65535");
        check(&["a;b", "c:80"], "no pod and no address");
    }
}
