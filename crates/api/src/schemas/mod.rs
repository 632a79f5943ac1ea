//! The schemas of the built-in kinds, made at build time (see `build.rs`) and kept compressed in
//! the binary. Field handling links the form without descriptions once and keeps it; OpenAPI
//! inflates the whole form when a document is made and lets it go.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;

use apimachinery::schema::{Definitions, SchemaRef};

static STRUCTURE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/structure.json.z"));
static DEFINITIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/definitions.json.z"));

/// How a definition refers to another.
pub(crate) const REF_PREFIX: &str = "#/components/schemas/";

/// The schema of a definition by its OpenAPI name. Panics on a name that `build.rs` did not check.
pub fn schema(definition: &str) -> SchemaRef {
    static LINKED: OnceLock<Definitions> = OnceLock::new();
    LINKED
        .get_or_init(|| {
            let structure = serde_json::from_str(&inflate(STRUCTURE));
            Definitions::from_json(&structure.expect("the build wrote a JSON object"))
        })
        .get(definition)
        .unwrap_or_else(|| panic!("the build checked that {definition} has a schema"))
        .clone()
}

/// All definitions with descriptions, as the text that stands in an OpenAPI v3 document.
pub(crate) struct Written(String);

impl Written {
    pub(crate) fn inflate() -> Self {
        Self(inflate(DEFINITIONS))
    }

    pub(crate) fn by_name(&self) -> BTreeMap<&str, &RawValue> {
        serde_json::from_str(&self.0).expect("the build wrote a JSON object")
    }
}

/// What is said of a field that every object's metadata has.
pub fn object_meta_description(field: &str) -> &'static str {
    static DESCRIPTIONS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let all = DESCRIPTIONS.get_or_init(|| {
        const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let written = Written::inflate();
        let schema = serde_json::from_str::<Value>(written.by_name()[OBJECT_META].get());
        let schema = schema.expect("the build wrote JSON");
        let text = |it: &str| {
            let text = schema["properties"][it]["description"].as_str().unwrap_or_default();
            (it.to_owned(), text.to_owned())
        };
        ["name", "creationTimestamp"].map(text).into()
    });
    all.get(field).map(String::as_str).unwrap_or_default()
}

fn inflate(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::ZlibDecoder::new(bytes)
        .read_to_string(&mut text)
        .expect("the build wrote compressed text");
    text
}
