//! Random expressions of a given type, and values for their variables. From one seed always the
//! same. They are what the type checker must accept and the evaluator must understand, so that they
//! can be held against other implementations of the language.

use serde_json::{Map, Value as Json, json};

use super::forms::{LANGUAGE, LISTS, OPTIONALS, POOLS, STRINGS, TWO_VARIABLES};
use crate::types::Type;

/// The variables of every expression.
pub const VARIABLES: &[(&str, &str)] = &[
    ("b", "bool"),
    ("i", "int"),
    ("n", "int"),
    ("x", "double"),
    ("s", "string"),
    ("t", "string"),
    ("lb", "list(bool)"),
    ("li", "list(int)"),
    ("ll", "list(list(int))"),
    ("lm", "list(map(string, string))"),
    ("ls", "list(string)"),
    ("lx", "list(double)"),
    ("mi", "map(string, int)"),
    ("mm", "map(string, map(string, int))"),
    ("ms", "map(string, string)"),
];

const INTS: &[i64] = &[0, 1, 2, 3, 4, 7, 10, 100, -1, -3, i64::MAX, i64::MIN];
const DOUBLES: &[&str] = &["0.0", "1.0", "1.5", "2.25", "-3.0", "1000.0", "0.1", "1e30"];
const STRINGS_POOL: &[&str] =
    &["", "a", "b", "c", "abc", "a-b", "héllo", "日本語", "A b", "10", "x,y,z", "\"quoted\\"];
const BYTES_POOL: &[&str] = &["b''", "b'a'", "b'abc'", "b'\\xff'", "b'\\x00b'"];
/// How far expressions nest.
const DEPTH: u32 = 4;
/// Tries of a form whose type does not fit before a leaf is taken.
const TRIES: u32 = 24;

/// Numbers by chance (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let n = u64::try_from(n.max(1)).unwrap_or(1);
        usize::try_from((mixed ^ (mixed >> 31)) % n).unwrap_or(0)
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A random expression.
#[derive(Debug, Clone)]
pub struct Case {
    pub text: String,
    /// What it must be, unless it is wrong on purpose.
    pub of_type: Type,
    /// Values of `VARIABLES`, in their order.
    pub values: Vec<Json>,
    /// An expression of another type stands somewhere in it.
    pub is_wrong: bool,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    /// A place for an expression of this type, which sees the last variables with these types.
    Hole(Type, Vec<Type>),
    /// A new variable.
    Fresh,
    Pool(String),
}

#[derive(Debug, Clone)]
struct Form {
    result: Type,
    pieces: Vec<Piece>,
}

/// Makes expressions of forms.
#[derive(Debug, Clone)]
pub struct Generator {
    forms: Vec<Form>,
    pools: Vec<(&'static str, &'static [&'static str])>,
    variables: Vec<(String, Type)>,
}

impl Default for Generator {
    /// All that this crate has.
    fn default() -> Self {
        let all = [LANGUAGE, OPTIONALS, STRINGS, LISTS, TWO_VARIABLES];
        Self::new(&all, &[])
    }
}

impl Generator {
    /// # Panics
    /// If a row is not written as rows are.
    pub fn new(rows: &[&[&str]], pools: &[(&'static str, &'static [&'static str])]) -> Self {
        let variables =
            VARIABLES.iter().map(|(name, it)| ((*name).to_owned(), parse_type(it).0)).collect();
        let forms = rows.iter().flat_map(|it| it.iter()).map(|row| parse_row(row)).collect();
        Self { forms, pools: POOLS.iter().chain(pools).copied().collect(), variables }
    }

    pub fn variables(&self) -> &[(String, Type)] {
        &self.variables
    }

    /// The expression of a seed. One of eight is wrong.
    pub fn case(&self, seed: u64) -> Case {
        let mut chance = Chance::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5851_f42d);
        let values = self.variables.iter().map(|(_, it)| value(it, &mut chance)).collect();
        let of_type = self.ground(&mut chance, 2);
        let wrong_in = (chance.below(8) == 0).then(|| chance.below(6));
        let mut maker =
            Maker { forms: self, scope: self.variables.clone(), n_fresh: 0, wrong_in, chance };
        let text = maker.make(&of_type, DEPTH);
        Case { text, of_type, values, is_wrong: wrong_in.is_some() && maker.wrong_in.is_none() }
    }

    /// A type without parameters.
    fn ground(&self, chance: &mut Chance, depth: u32) -> Type {
        let n = if depth == 0 { 8 } else { 12 };
        match chance.below(n) {
            0 | 1 => Type::Bool,
            2 => Type::Int,
            3 => Type::Uint,
            4 => Type::Double,
            5 | 6 => Type::String,
            7 => [Type::Bytes, Type::Duration, Type::Timestamp][chance.below(3)].clone(),
            8 | 9 => Type::list(self.ground(chance, depth - 1)),
            10 => Type::map(Type::String, self.ground(chance, depth - 1)),
            _ if self.has_optionals() => Type::optional(self.ground(chance, 0)),
            _ => Type::Int,
        }
    }

    fn has_optionals(&self) -> bool {
        self.forms.iter().any(|it| matches!(it.result, Type::Optional(_)))
    }

    fn word(&self, pool: &str, chance: &mut Chance) -> &'static str {
        let words = self.pools.iter().find(|it| it.0 == pool).map_or(&["0"][..], |it| it.1);
        words[chance.below(words.len())]
    }
}

/// The making of one expression.
struct Maker<'f> {
    forms: &'f Generator,
    scope: Vec<(String, Type)>,
    n_fresh: usize,
    /// Places until one gets something of another type.
    wrong_in: Option<usize>,
    chance: Chance,
}

impl Maker<'_> {
    fn make(&mut self, wanted: &Type, depth: u32) -> String {
        if depth == 0 || self.chance.below(5) == 0 {
            return self.leaf(wanted, depth);
        }
        for _ in 0..TRIES {
            let form = &self.forms.forms[self.chance.below(self.forms.forms.len())];
            let mut bound = Vec::new();
            if unify(&form.result, wanted, &mut bound) {
                return self.fill(form, bound, depth - 1);
            }
        }
        self.leaf(wanted, depth)
    }

    fn fill(&mut self, form: &Form, mut bound: Bound, depth: u32) -> String {
        let mut text = String::new();
        let mut fresh: Vec<String> = Vec::new();
        for piece in &form.pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Pool(name) => text.push_str(self.forms.word(name, &mut self.chance)),
                Piece::Fresh => {
                    self.n_fresh += 1;
                    fresh.push(format!("v{}", self.n_fresh));
                    text.push_str(&fresh[fresh.len() - 1]);
                }
                Piece::Hole(of_type, seen) => {
                    let n_before = self.scope.len();
                    let types: Vec<Type> =
                        seen.iter().map(|it| self.resolve(it, &mut bound)).collect();
                    self.scope.extend(fresh.iter().cloned().zip(types));
                    let wanted = self.resolve(of_type, &mut bound);
                    let wanted = self.maybe_wrong(wanted);
                    text.push_str(&self.make(&wanted, depth));
                    self.scope.truncate(n_before);
                }
            }
        }
        text
    }

    fn maybe_wrong(&mut self, wanted: Type) -> Type {
        match &mut self.wrong_in {
            Some(0) => {}
            Some(n) => {
                *n -= 1;
                return wanted;
            }
            None => return wanted,
        }
        let other = self.forms.ground(&mut self.chance, 1);
        if other != wanted {
            self.wrong_in = None;
        }
        other
    }

    /// The type with its parameters replaced; those that nothing decided yet by chance.
    fn resolve(&mut self, it: &Type, bound: &mut Bound) -> Type {
        match it {
            Type::Param(name) => match bound.iter().find(|known| known.0 == *name) {
                Some(known) => known.1.clone(),
                None => {
                    let chosen = self.forms.ground(&mut self.chance, 1);
                    bound.push((name, chosen.clone()));
                    chosen
                }
            },
            Type::List(inner) => Type::list(self.resolve(inner, bound)),
            Type::Optional(inner) => Type::optional(self.resolve(inner, bound)),
            Type::Map(pair) => {
                let key = self.resolve(&pair.0, bound);
                Type::map(key, self.resolve(&pair.1, bound))
            }
            other => other.clone(),
        }
    }

    /// A variable, or else a literal.
    fn leaf(&mut self, wanted: &Type, depth: u32) -> String {
        let known: Vec<String> =
            self.scope.iter().filter(|it| it.1 == *wanted).map(|it| it.0.clone()).collect();
        if !known.is_empty() && self.chance.below(3) > 0 {
            return self.chance.pick(&known);
        }
        self.literal(wanted, depth)
    }

    fn literal(&mut self, wanted: &Type, depth: u32) -> String {
        let depth = depth.saturating_sub(1);
        match wanted {
            Type::Bool => self.chance.pick(&["true", "false"]).to_owned(),
            Type::Int => match self.int() {
                n if n < 0 => format!("({n})"),
                n => n.to_string(),
            },
            Type::Uint => format!("{}u", self.int().unsigned_abs()),
            Type::Double => format!("({})", self.chance.pick(DOUBLES)),
            Type::String => quote(self.chance.pick(STRINGS_POOL)),
            Type::Bytes => self.chance.pick(BYTES_POOL).to_owned(),
            Type::Duration => {
                format!("duration({})", self.forms.word("duration", &mut self.chance))
            }
            Type::Timestamp => {
                format!("timestamp({})", self.forms.word("timestamp", &mut self.chance))
            }
            Type::List(inner) => {
                let n = 1 + self.chance.below(3);
                let items: Vec<String> = (0..n).map(|_| self.make(inner, depth)).collect();
                format!("[{}]", items.join(", "))
            }
            Type::Map(pair) => {
                let n = 1 + self.chance.below(3);
                let keys = ["'a'", "'b'", "'x-y'"];
                let entries = keys[..n].iter().map(|key| {
                    let value = self.make(&pair.1, depth);
                    format!("{key}: {value}")
                });
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Type::Optional(inner) => format!("optional.of({})", self.make(inner, depth)),
            _ => "null".to_owned(),
        }
    }

    /// The largest ones are rare: most of what they are part of overflows.
    fn int(&mut self) -> i64 {
        let n = if self.chance.below(12) == 0 { INTS.len() } else { INTS.len() - 2 };
        INTS[self.chance.below(n)]
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// JSON of a type.
fn value(of: &Type, chance: &mut Chance) -> Json {
    match of {
        Type::Bool => json!(chance.below(2) == 0),
        Type::Int => json!(INTS[chance.below(INTS.len() - 2)]),
        Type::Double => {
            let text = chance.pick(DOUBLES);
            json!(text.parse::<f64>().unwrap_or_default())
        }
        Type::String => json!(chance.pick(STRINGS_POOL)),
        Type::List(inner) => (0..chance.below(4)).map(|_| value(inner, chance)).collect(),
        Type::Map(pair) => {
            let mut entries = Map::new();
            for key in ["a", "b", "c", "x-y"] {
                if chance.below(2) == 0 {
                    entries.insert(key.to_owned(), value(&pair.1, chance));
                }
            }
            Json::Object(entries)
        }
        _ => Json::Null,
    }
}

/// What parameters stand for.
type Bound = Vec<(&'static str, Type)>;

fn unify(form: &Type, wanted: &Type, bound: &mut Bound) -> bool {
    match (form, wanted) {
        (Type::Param(name), _) => match bound.iter().find(|it| it.0 == *name) {
            Some(known) => known.1 == *wanted,
            None => {
                bound.push((name, wanted.clone()));
                true
            }
        },
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            unify(a, b, bound)
        }
        (Type::Map(a), Type::Map(b)) => unify(&a.0, &b.0, bound) && unify(&a.1, &b.1, bound),
        (a, b) => a == b,
    }
}

fn parse_row(row: &str) -> Form {
    let (result, mut rest) = row.split_once(" = ").expect("a row is a type and a text");
    let mut pieces = Vec::new();
    let mut text = String::new();
    while let Some(it) = rest.chars().next() {
        match parse_hole(rest) {
            Some((piece, after)) => {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(piece);
                rest = after;
            }
            None => {
                text.push(it);
                rest = &rest[it.len_utf8()..];
            }
        }
    }
    pieces.push(Piece::Text(text));
    Form { result: parse_type(result).0, pieces }
}

/// `$`, `{type}`, `{type|types}` or `{#pool}`; other braces are the language's.
fn parse_hole(text: &str) -> Option<(Piece, &str)> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some((Piece::Fresh, rest));
    }
    let inside = text.strip_prefix('{')?;
    if let Some(pool) = inside.strip_prefix('#') {
        let (name, rest) = pool.split_once('}')?;
        return Some((Piece::Pool(name.to_owned()), rest));
    }
    if !inside.starts_with(|it: char| it.is_ascii_alphabetic()) {
        return None;
    }
    let (inside, rest) = inside.split_once('}')?;
    let (of_type, seen) = inside.split_once('|').unwrap_or((inside, ""));
    if !of_type.chars().all(|it| it.is_ascii_alphanumeric() || "(), ".contains(it)) {
        return None;
    }
    let mut types = Vec::new();
    let mut left = seen;
    while !left.is_empty() {
        let (next, after) = parse_type(left);
        types.push(next);
        left = after.trim_start_matches([',', ' ']);
    }
    Some((Piece::Hole(parse_type(of_type).0, types), rest))
}

/// A type and what follows it.
fn parse_type(text: &str) -> (Type, &str) {
    let end = text.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let plain = match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "A" => Type::Param("A"),
        "B" => Type::Param("B"),
        _ => {
            let (first, rest) = parse_type(rest.trim_start_matches('('));
            let (of, rest) = match name {
                "list" => (Type::list(first), rest),
                "optional" => (Type::optional(first), rest),
                "map" => {
                    let (second, rest) = parse_type(rest.trim_start_matches([',', ' ']));
                    (Type::map(first, second), rest)
                }
                other => panic!("{other} is no type of random expressions"),
            };
            return (of, rest.strip_prefix(')').unwrap_or(rest));
        }
    };
    (plain, rest)
}
