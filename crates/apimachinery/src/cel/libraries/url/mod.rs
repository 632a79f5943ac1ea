//! URLs as values.

mod parse;

use cel::{Error, Function, Key, Library, NativeMap, Opaque, Overload, Text, Type, Value};

use super::reading;
use parse::Url;
pub(super) use parse::check_request_uri;

const NAME: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }
}

pub(super) fn library() -> Library {
    let it = || Type::opaque(NAME);
    let text = || [Type::String];
    let getter = |name, id, implementation| {
        Function::new(name, [Overload::member(id, [it()], Type::String, implementation)])
    };
    let query = Type::map(Type::String, Type::list(Type::String));
    let url = Overload::global("string_to_url", text(), it(), url)
        .cost(reading::once)
        .estimate(reading::estimate_same_size);
    Library::new(vec![
        Function::new("url", [url]),
        Function::new("isURL", [Overload::global("is_url_string", text(), Type::Bool, is_url)]),
        getter("getScheme", "url_get_scheme", scheme),
        getter("getHost", "url_get_host", host),
        getter("getHostname", "url_get_hostname", hostname),
        getter("getPort", "url_get_port", port),
        getter("getEscapedPath", "url_get_escaped_path", escaped_path),
        Function::new("getQuery", [Overload::member("url_get_query", [it()], query, get_query)]),
    ])
}

fn one<'s>(args: &'s [Value<'_>]) -> Result<&'s Url, Error> {
    args.first().and_then(Value::downcast_ref).ok_or(Error::NoSuchOverload)
}

fn url<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    let parsed = check_request_uri(text).and_then(|()| Url::parse(text));
    parsed.map(Value::opaque).map_err(|why| {
        Error::refused(format!("URL parse error during conversion from string: {why}"))
    })
}

fn is_url<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok(Value::Bool(check_request_uri(text).is_ok()))
}

fn scheme<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.scheme.clone().into())
}

fn host<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.host.clone().into())
}

fn hostname<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.split_host().0.to_owned().into())
}

fn port<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.split_host().1.to_owned().into())
}

fn escaped_path<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    one(args).map(|it| it.escaped_path().into())
}

fn get_query<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut map = NativeMap::default();
    for (key, values) in one(args)?.query() {
        let values = values.into_iter().map(Value::from).collect();
        map.insert(Key::String(Text::Shared(key.into())), Value::list(values));
    }
    Ok(map.into())
}
