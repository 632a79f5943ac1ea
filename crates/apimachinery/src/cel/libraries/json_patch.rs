//! `jsonpatch.escapeKey`: a key as a step of a JSON pointer.

use cel::{Error, Function, Library, Overload, Type, Value};

use super::reading;

pub(super) fn library() -> Library {
    let escape =
        Overload::global("string_jsonpatch_escapeKey_string", [Type::String], Type::String, escape)
            .cost(reading::once)
            .estimate(reading::estimate_same_size);
    Library::new(vec![Function::new("jsonpatch.escapeKey", [escape])])
}

fn escape<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::String(key)] = args else { return Err(Error::NoSuchOverload) };
    Ok(key.replace('~', "~0").replace('/', "~1").into())
}
