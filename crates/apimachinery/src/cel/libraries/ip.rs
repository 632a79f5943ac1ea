//! IP addresses as values.

use std::net::IpAddr;

use cel::{Error, Function, Library, Opaque, Overload, Type, Value};

use super::reading;

const NAME: &str = "net.IP";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ip(pub(super) IpAddr);

impl Opaque for Ip {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

pub(super) fn ip_type() -> Type {
    Type::opaque(NAME)
}

impl Ip {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        if text.contains(':') && text.contains('%') {
            let is_address = text.split('%').next().is_some_and(|it| it.parse::<IpAddr>().is_ok());
            if is_address && !text.ends_with('%') {
                let what = format!("IP address {text:?} with zone value is not allowed");
                return Err(Error::refused(what));
            }
        }
        let address: IpAddr = text.parse().map_err(|_| {
            let why = explain(text);
            Error::refused(format!(
                "IP Address {text:?} parse error during conversion from string: {why}"
            ))
        })?;
        if is_mapped(address) {
            let what = format!("IPv4-mapped IPv6 address {text:?} is not allowed");
            return Err(Error::refused(what));
        }
        Ok(Self(address))
    }
}

pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some())
}

/// What Go's `netip.ParseAddr` says about a text that is no address.
pub(super) fn explain(text: &str) -> String {
    let why = match text.find(['.', ':', '%']) {
        Some(at) if text[at..].starts_with('.') => explain_v4(text),
        Some(at) if text[at..].starts_with(':') => "unable to parse IP".to_owned(),
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    };
    format!("ParseAddr({text:?}): {why}")
}

fn explain_v4(text: &str) -> String {
    let mut rest = text;
    for (index, field) in text.split('.').enumerate() {
        let odd = field.find(|it: char| !it.is_ascii_digit());
        let why = match odd {
            _ if index > 3 => "IPv4 address too long".to_owned(),
            Some(at) => format!("unexpected character (at {:?})", &rest[at..]),
            None if field.is_empty() => {
                format!("IPv4 field must have at least one digit (at {rest:?})")
            }
            None if field.len() > 1 && field.starts_with('0') => {
                "IPv4 field has octet with leading zero".to_owned()
            }
            None if field.parse::<u8>().is_err() => "IPv4 field has value >255".to_owned(),
            None => {
                rest = rest[field.len()..].trim_start_matches('.');
                continue;
            }
        };
        return why;
    }
    "IPv4 address too short".to_owned()
}

pub(super) fn library() -> Library {
    let it = ip_type;
    let text = || [Type::String];
    let parsing =
        |overload: Overload| overload.cost(reading::once).estimate(reading::estimate_once);
    let canonical = Overload::global("ip_is_canonical", text(), Type::Bool, is_canonical)
        .cost(reading::twice)
        .estimate(reading::estimate_twice);
    let asking = |name, id, implementation| {
        Function::new(name, [Overload::member(id, [it()], Type::Bool, implementation)])
    };
    let functions = vec![
        Function::new("ip", [parsing(Overload::global("string_to_ip", text(), it(), ip))]),
        Function::new("family", [Overload::member("ip_family", [it()], Type::Int, family)]),
        Function::new("ip.isCanonical", [canonical]),
        asking("isUnspecified", "ip_is_unspecified", is_unspecified),
        asking("isLoopback", "ip_is_loopback", is_loopback),
        asking("isLinkLocalMulticast", "ip_is_link_local_multicast", is_link_local_multicast),
        asking("isLinkLocalUnicast", "ip_is_link_local_unicast", is_link_local_unicast),
        asking("isGlobalUnicast", "ip_is_global_unicast", is_global_unicast),
        Function::new("isIP", [parsing(Overload::global("is_ip", text(), Type::Bool, is_ip))]),
        Function::new("string", [Overload::global("ip_to_string", [it()], Type::String, to_text)]),
    ];
    let mut library = Library::new(functions);
    library.types = vec![it()];
    library
}

fn one(args: &[Value<'_>]) -> Result<IpAddr, Error> {
    let found = args.first().and_then(Value::downcast_ref::<Ip>);
    found.map(|it| it.0).ok_or(Error::NoSuchOverload)
}

fn ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ip::parse(text).map(Value::opaque)
}

fn is_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Bool(Ip::parse(text).is_ok()))
}

fn is_canonical<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Bool(Ip::parse(text)?.0.to_string() == text.as_str()))
}

fn to_text<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.to_string().into())
}

fn family<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Int(if it.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Bool(it.is_unspecified()))
}

fn is_loopback<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Bool(it.is_loopback()))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    }
}

fn is_link_local_unicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Bool(is_link_local(it)))
}

/// 224.0.0.0/24, and ff02::/16 with any flags.
fn is_link_local_multicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| {
        Value::Bool(match it {
            IpAddr::V4(it) => it.octets()[..3] == [224, 0, 0],
            IpAddr::V6(it) => it.segments()[0] & 0xff0f == 0xff02,
        })
    })
}

/// As Go has it: private addresses are global, too.
fn is_global_unicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let it = one(args)?;
    let is_broadcast = matches!(it, IpAddr::V4(it) if it.is_broadcast());
    let is_special =
        it.is_unspecified() || it.is_loopback() || it.is_multicast() || is_link_local(it);
    Ok(Value::Bool(!is_broadcast && !is_special))
}
