//! The messages of what is served, in memory: made on first use and kept. The build writes them
//! from `facts/`, as lines:
//!
//! `package <alias> <name> <apiVersion>` starts a package; the lines below are its types: the type,
//! then its fields as name=number:type, where the name is the one in JSON.
//!
//! - `*=number:T`: T's fields stand in JSON where this field stands; in protobuf they are a message
//!   of their own.
//! - `[]T`, `{}T`: a list of T; a map from strings to T.
//! - `T`: a scalar; a type of this package; alias.Type of another; or one of those that JSON writes
//!   in a form of its own.
//! - `!` after a scalar: JSON has it even when it is zero; without, zero and absent are the same.

use std::collections::BTreeMap;
use std::sync::OnceLock;

static TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/messages.txt"));

/// A message type: its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Int32,
    Int64,
    Bool,
    Bytes,
    Double,
    Message(Message),
    IntOrString,
    MicroTime,
    Quantity,
    Raw,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Strings,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    One,
    List,
    Map,
    /// One message whose fields JSON shows among those around it.
    Inline,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) shape: Shape,
    pub(super) count: Count,
    /// JSON has it even when it is zero.
    pub(super) is_kept: bool,
}

/// Where a name of a JSON object goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) field: Field,
    pub(super) inlined_in: Inlined,
}

/// The numbers of the inlined messages that a field belongs to, the outermost first; zero where
/// there is none. One may inline another: NamedRuleWithOperations has RuleWithOperations, and that
/// has Rule.
pub(super) type Inlined = [u32; 2];

struct Type {
    /// By number.
    fields: Box<[Field]>,
    /// By name, with those of inlined messages.
    slots: Box<[Slot]>,
}

pub(super) struct Table {
    types: Vec<Type>,
    by_name: BTreeMap<(&'static str, &'static str), Message>,
    /// apiVersion to package.
    packages: BTreeMap<&'static str, &'static str>,
    schema: Message,
}

impl Table {
    pub(super) fn get() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Self::parse(TEXT))
    }

    /// By the name of the definition in OpenAPI: `io.k8s.api.apps.v1.Deployment`.
    pub(super) fn find(&self, definition: &str) -> Option<Message> {
        let (package, name) = definition.rsplit_once('.')?;
        self.by_name.get(&(package, name)).copied()
    }

    pub(super) fn find_kind(&self, api_version: &str, kind: &str) -> Option<Message> {
        let package = self.packages.get(api_version)?;
        self.by_name.get(&(*package, kind)).copied()
    }

    /// The fields of a message and their places among them.
    pub(super) fn fields(&self, message: Message) -> &[Field] {
        &self.types[usize::from(message.0)].fields
    }

    pub(super) fn slot(&self, message: Message, name: &str) -> Option<Slot> {
        let slots = &self.types[usize::from(message.0)].slots;
        slots.binary_search_by_key(&name, |it| it.field.name).ok().map(|at| slots[at])
    }

    /// What the special schema types hold.
    pub(super) fn schema(&self) -> Message {
        self.schema
    }

    pub(super) fn parse(text: &'static str) -> Self {
        let lines = || text.lines();
        let mut by_name = BTreeMap::new();
        let (mut aliases, mut packages) = (BTreeMap::new(), BTreeMap::new());
        let mut package = "";
        for line in lines() {
            if let Some([alias, name, api_version]) = header(line) {
                aliases.insert(alias, name);
                packages.insert(api_version, name);
                package = name;
                continue;
            }
            let id = u16::try_from(by_name.len()).expect("the table has few types");
            let name = line.split(' ').next().unwrap_or_default();
            let previous = by_name.insert((package, name), Message(id));
            assert!(previous.is_none(), "{package}.{name} is listed once");
        }
        let find = |package: &'static str, name: &'static str| match name.split_once('.') {
            Some((alias, name)) => by_name[&(aliases[alias], name)],
            None => by_name[&(package, name)],
        };
        let mut types = Vec::with_capacity(by_name.len());
        for line in lines() {
            if let Some([_, name, _]) = header(line) {
                package = name;
                continue;
            }
            let words = line.split(' ').skip(1);
            let fields: Box<[Field]> =
                words.map(|it| field(it, &|name| find(package, name))).collect();
            types.push(Type { fields, slots: Box::default() });
        }
        link_slots(&mut types);
        let schema = find("", "apiextensions/v1.JSONSchemaProps");
        Self { types, by_name, packages, schema }
    }
}

/// Alias, name and apiVersion of a package.
fn header(line: &'static str) -> Option<[&'static str; 3]> {
    let mut words = line.strip_prefix("package ")?.split(' ');
    Some([words.next()?, words.next()?, words.next()?])
}

fn field(word: &'static str, find: &dyn Fn(&'static str) -> Message) -> Field {
    let (name, rest) = word.split_once('=').expect("name=number:type");
    let (number, rest) = rest.split_once(':').expect("name=number:type");
    let number = number.parse().expect("fields have numbers");
    let (is_kept, rest) = rest.strip_suffix('!').map_or((false, rest), |rest| (true, rest));
    let (count, shape) = if name == "*" {
        (Count::Inline, rest)
    } else if let Some(rest) = rest.strip_prefix("[]") {
        (Count::List, rest)
    } else if let Some(rest) = rest.strip_prefix("{}") {
        (Count::Map, rest)
    } else {
        (Count::One, rest)
    };
    let shape = match shape {
        "string" => Shape::Text,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "bool" => Shape::Bool,
        "bytes" => Shape::Bytes,
        "double" => Shape::Double,
        "IntOrString" => Shape::IntOrString,
        "MicroTime" => Shape::MicroTime,
        "Quantity" => Shape::Quantity,
        "Raw" => Shape::Raw,
        "SchemaOrArray" => Shape::SchemaOrArray,
        "SchemaOrBool" => Shape::SchemaOrBool,
        "SchemaOrStrings" => Shape::SchemaOrStrings,
        "Strings" => Shape::Strings,
        "Time" => Shape::Time,
        name => Shape::Message(find(name)),
    };
    Field { name, number, shape, count, is_kept }
}

impl Field {
    /// A field without a name, inside the special types.
    pub(super) fn text(number: u32) -> Self {
        let (shape, count) = (Shape::Text, Count::One);
        Self { name: "", number, shape, count, is_kept: true }
    }
}

fn link_slots(types: &mut [Type]) {
    for at in 0..types.len() {
        let mut slots = Vec::new();
        add_slots(types, at, [0, 0], &mut slots);
        slots.sort_by_key(|it| it.field.name);
        types[at].slots = slots.into();
    }
}

fn add_slots(types: &[Type], at: usize, inlined_in: Inlined, slots: &mut Vec<Slot>) {
    for field in &types[at].fields {
        match (field.count, field.shape) {
            (Count::Inline, Shape::Message(inner)) => {
                let inlined_in = match inlined_in {
                    [0, _] => [field.number, 0],
                    [outer, 0] => [outer, field.number],
                    _ => panic!("messages are inlined twice at most"),
                };
                add_slots(types, usize::from(inner.0), inlined_in, slots);
            }
            _ => slots.push(Slot { field: *field, inlined_in }),
        }
    }
}
