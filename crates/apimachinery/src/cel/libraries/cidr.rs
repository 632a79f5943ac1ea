//! Networks (`10.0.0.0/8`) as values. The host bits may be set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::{
    CallEstimate, CallShape, CostEstimate, Error, Function, Library, Opaque, Overload,
    STRING_TRAVERSAL, SizeEstimate, Type, Value, traversal,
};

use super::ip::{self, Ip, ip_type};
use super::reading;

const NAME: &str = "net.CIDR";
/// Bytes of an address.
const ADDRESS: SizeEstimate = SizeEstimate::new(4, 16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Opaque for Cidr {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> u64 {
        u64::from(self.prefix.div_ceil(8))
    }
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, Error> {
        // Said twice upstream, too.
        let context = "network address parse error during conversion from string: ";
        Self::parse_prefix(text).map_err(|why| {
            Error::refused(match why {
                Some(why) => {
                    format!("{context}{context}netip.ParsePrefix({text:?}): {why}")
                }
                None => format!("{context}IPv4-mapped IPv6 address {text:?} is not allowed"),
            })
        })
    }

    /// Refuses with what Go says, or with nothing for an IPv4 address inside of IPv6.
    fn parse_prefix(text: &str) -> Result<Self, Option<String>> {
        let Some((address, bits)) = text.rsplit_once('/') else {
            return Err(Some("no '/'".to_owned()));
        };
        let parsed: IpAddr = match address.parse() {
            Ok(parsed) => parsed,
            Err(_) if address.contains('%') && address.contains(':') => {
                return Err(Some("IPv6 zones cannot be present in a prefix".to_owned()));
            }
            Err(_) => return Err(Some(ip::explain(address))),
        };
        let is_odd = bits.is_empty()
            || !bits.bytes().all(|it| it.is_ascii_digit())
            || (bits.len() > 1 && bits.starts_with('0'));
        if is_odd {
            return Err(Some(format!("bad bits after slash: {bits:?}")));
        }
        let bits_max: u8 = if parsed.is_ipv4() { 32 } else { 128 };
        match bits.parse::<u8>() {
            _ if ip::is_mapped(parsed) => Err(None),
            Ok(prefix) if prefix <= bits_max => Ok(Self { address: parsed, prefix }),
            _ => Err(Some("prefix length out of range".to_owned())),
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        masked(address, self.prefix) == masked(self.address, self.prefix)
    }
}

/// The address with only the first bits of it.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(it.to_bits() & mask).into()
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(it.to_bits() & mask).into()
        }
    }
}

pub(super) fn library() -> Library {
    let it = || Type::opaque(NAME);
    let text = || Type::String;
    let parsing =
        |overload: Overload| overload.cost(reading::once).estimate(reading::estimate_once);
    let contains_ip = [
        Overload::member("cidr_contains_ip_ip", [it(), ip_type()], Type::Bool, contains_ip)
            .cost(cost_ip)
            .estimate(|_| Some(CallEstimate::of(estimate_ip()))),
        Overload::member("cidr_contains_ip_string", [it(), text()], Type::Bool, contains_ip)
            .cost_if_resolved(|args, result| cost_ip(args, result) + cost_text(args))
            .estimate(|call| Some(CallEstimate::of(estimate_ip().add(estimate_text(call)?)))),
    ];
    let contains_cidr = [
        Overload::member("cidr_contains_cidr", [it(), it()], Type::Bool, contains_cidr)
            .cost(cost_cidr)
            .estimate(|_| Some(CallEstimate::of(estimate_cidr()))),
        Overload::member("cidr_contains_cidr_string", [it(), text()], Type::Bool, contains_cidr)
            .cost_if_resolved(|args, result| cost_cidr(args, result) + cost_text(args))
            .estimate(|call| Some(CallEstimate::of(estimate_cidr().add(estimate_text(call)?)))),
    ];
    let functions = vec![
        Function::new("cidr", [parsing(Overload::global("string_to_cidr", [text()], it(), cidr))]),
        Function::new("containsIP", contains_ip),
        Function::new("containsCIDR", contains_cidr),
        Function::new("ip", [Overload::member("cidr_ip", [it()], ip_type(), address)]),
        Function::new(
            "prefixLength",
            [Overload::member("cidr_prefix_length", [it()], Type::Int, length)],
        ),
        Function::new("masked", [Overload::member("cidr_masked", [it()], it(), mask)]),
        Function::new(
            "isCIDR",
            [parsing(Overload::global("is_cidr", [text()], Type::Bool, is_cidr))],
        ),
        Function::new("string", [Overload::global("cidr_to_string", [it()], text(), to_text)]),
    ];
    let mut library = Library::new(functions);
    library.types = vec![it()];
    library
}

fn size(args: &[Value<'_>], index: usize) -> u64 {
    args.get(index).map_or(0, Value::size)
}

fn cost_ip(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    traversal(2 * size(args, 0))
}

fn cost_cidr(args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    cost_ip(args, result) + traversal(size(args, 0)) + 1
}

/// A text must be read first.
fn cost_text(args: &[Value<'_>]) -> u64 {
    traversal(size(args, 1))
}

fn estimate_ip() -> CostEstimate {
    ADDRESS.add(ADDRESS).scaled(STRING_TRAVERSAL)
}

fn estimate_cidr() -> CostEstimate {
    estimate_ip().add(ADDRESS.scaled(STRING_TRAVERSAL)).add(CostEstimate::ONE)
}

fn estimate_text(call: &CallShape<'_>) -> Option<CostEstimate> {
    Some(call.operand_size(1)?.scaled(STRING_TRAVERSAL))
}

fn one(args: &[Value<'_>]) -> Result<Cidr, Error> {
    let found = args.first().and_then(Value::downcast_ref::<Cidr>);
    found.copied().ok_or(Error::NoSuchOverload)
}

fn cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Cidr::parse(text).map(Value::opaque)
}

fn is_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Bool(Cidr::parse(text).is_ok()))
}

fn to_text<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| format!("{}/{}", it.address, it.prefix).into())
}

fn address<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::opaque(Ip(it.address)))
}

fn length<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::Int(i64::from(it.prefix)))
}

fn mask<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| Value::opaque(Cidr { address: masked(it.address, it.prefix), ..it }))
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let address = match args.get(1) {
        Some(Value::String(text)) => Ip::parse(text)?.0,
        Some(other) => other.downcast_ref::<Ip>().ok_or(Error::NoSuchOverload)?.0,
        None => return Err(Error::NoSuchOverload),
    };
    one(args).map(|it| Value::Bool(it.contains(address)))
}

fn contains_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let inner = match args.get(1) {
        Some(Value::String(text)) => Cidr::parse(text)?,
        Some(_) => one(&args[1..])?,
        None => return Err(Error::NoSuchOverload),
    };
    let it = one(args)?;
    Ok(Value::Bool(it.prefix <= inner.prefix && it.contains(inner.address)))
}
