//! Reads `facts/`: one file per API group, with every kind and every type of it. `facts/README.md`
//! says how they are written. What cannot be read stops the build, with the file and the line.

use std::collections::BTreeMap;
use std::path::Path;

pub(crate) struct Facts {
    pub(crate) groups: Vec<Group>,
}

pub(crate) struct Group {
    /// As references name it, which is the name of its file: `rbac`.
    pub(crate) folder: String,
    /// As the API names it: `rbac.authorization.k8s.io`, empty for core.
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
}

pub(crate) struct Version {
    pub(crate) name: String,
    /// What the names of its definitions start with: `io.k8s.api.rbac.v1`.
    pub(crate) package: String,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) types: Vec<Type>,
}

#[derive(Default)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) is_namespaced: bool,
    /// Plural, singular, then the short ones.
    pub(crate) names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) stored: Option<Stored>,
    pub(crate) rules: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
}

pub(crate) struct Stored {
    pub(crate) prefix: String,
    /// `v2`, or `core/v1` when another group stores it.
    pub(crate) version: String,
    pub(crate) hash: String,
}

pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) door: String,
    pub(crate) verbs: Vec<String>,
    /// What is read and written there, if it is not the kind itself: group, version and kind.
    pub(crate) kind: Option<(String, String, String)>,
}

pub(crate) struct Type {
    pub(crate) name: String,
    /// How a value of it merges.
    pub(crate) rules: Vec<String>,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone)]
pub(crate) struct Field {
    /// As JSON has it; `*` if the fields of its type stand in its place there.
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    /// JSON has it also when there is nothing, as null.
    pub(crate) is_null_written: bool,
    pub(crate) default: Option<serde_json::Value>,
    pub(crate) values: Vec<String>,
    /// The values are those of the items of the list.
    pub(crate) is_of_items: bool,
    pub(crate) rules: Vec<String>,
    /// The type in Go, where the shape does not say it.
    pub(crate) go: Option<String>,
    /// The types that it is inlined from, as Go names them on the way to it: `VolumeSource`.
    pub(crate) embedded: String,
}

#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) count: Count,
    /// A scalar, a word for what JSON writes in a form of its own, or a type:
    /// `folder/version.Type`.
    pub(crate) of: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Always there.
    One,
    /// Not there when it is zero.
    UnlessZero,
    /// There or not; zero is a value like any other.
    Optional,
    List,
    Map,
}

pub(crate) const SCALARS: &[&str] = &["string", "int32", "int64", "bool", "bytes", "double"];

/// What JSON writes in a form of its own.
const SPECIAL: &[&str] = &[
    "IntOrString",
    "MicroTime",
    "Quantity",
    "Raw",
    "SchemaOrArray",
    "SchemaOrBool",
    "SchemaOrStrings",
    "Strings",
    "Time",
];

const VERBS_ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Facts {
    pub(crate) fn read(folder: &Path) -> Self {
        let entries = std::fs::read_dir(folder).expect("the folder of facts is readable");
        let mut files: Vec<_> = entries.map(|it| it.expect("a file of facts").path()).collect();
        files.retain(|it| it.extension().is_some_and(|it| it == "txt"));
        files.sort();
        let mut facts = Self { groups: files.iter().map(|it| read_group(it)).collect() };
        facts.name_groups();
        facts
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = (&Group, &Version)> {
        self.groups.iter().flat_map(|group| group.versions.iter().map(move |it| (group, it)))
    }

    pub(crate) fn version(&self, folder: &str, version: &str) -> &Version {
        let mut versions = self.versions();
        let found = versions.find(|(group, it)| group.folder == folder && it.name == version);
        found.unwrap_or_else(|| panic!("facts/{folder}.txt has no version {version}")).1
    }

    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> &Kind {
        let versions = self.versions().filter(|it| (&*it.0.name, &*it.1.name) == (group, version));
        let found = versions.flat_map(|it| &it.1.kinds).find(|it| it.name == kind);
        found.unwrap_or_else(|| panic!("no file in facts/ has {kind} of {group:?}, {version}"))
    }

    /// By the name of the definition: `io.k8s.api.apps.v1.Deployment`.
    pub(crate) fn types(&self) -> BTreeMap<String, &Type> {
        let types = self.versions().flat_map(|(_, version)| {
            version.types.iter().map(|it| (version.definition(&it.name), it))
        });
        types.collect()
    }

    /// `folder/version.Type` as the name of a definition.
    pub(crate) fn definition(&self, reference: &str) -> String {
        let (path, name) = reference.split_once('.').expect("folder/version.Type");
        let (folder, version) = path.split_once('/').expect("folder/version.Type");
        self.version(folder, version).definition(name)
    }

    /// Subresources refer to groups by their files; what is served has their names.
    fn name_groups(&mut self) {
        let names: BTreeMap<String, String> =
            self.groups.iter().map(|it| (it.folder.clone(), it.name.clone())).collect();
        let versions = self.groups.iter_mut().flat_map(|it| &mut it.versions);
        let kinds = versions.flat_map(|it| &mut it.kinds);
        for (folder, _, kind) in
            kinds.flat_map(|it| &mut it.subresources).filter_map(|it| it.kind.as_mut())
        {
            let name = names.get(folder);
            name.unwrap_or_else(|| panic!("{kind} is of {folder}, which has no file in facts/"))
                .clone_into(folder);
        }
    }
}

impl Version {
    pub(crate) fn definition(&self, name: &str) -> String {
        format!("{}.{name}", self.package)
    }
}

impl Kind {
    pub(crate) fn is_listed(&self) -> bool {
        self.verbs.iter().any(|it| it == "list")
    }
}

/// Where the reader is, for what it says when it cannot go on.
struct Place<'a> {
    file: &'a Path,
    line: usize,
}

impl Place<'_> {
    fn fail(&self, why: &str) -> ! {
        panic!("{}:{}: {why}", self.file.display(), self.line + 1)
    }
}

fn read_group(file: &Path) -> Group {
    let text =
        std::fs::read_to_string(file).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
    let folder = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut group = Group { folder: folder.clone(), name: String::new(), versions: Vec::new() };
    let mut is_in_kind = false;
    let lines = text.lines().enumerate();
    for (line, text) in lines.filter(|it| !it.1.trim().is_empty() && !it.1.starts_with('#')) {
        let place = Place { file, line };
        let words: Vec<&str> = text.split_whitespace().collect();
        if text.starts_with(' ') {
            let version = version_of(&mut group, &place);
            let of = (&*folder, &*version.name);
            match (is_in_kind, version.kinds.last_mut(), version.types.last_mut()) {
                (true, Some(kind), _) => add_to_kind(kind, &words, of, &place),
                (false, _, Some(type_)) => type_.fields.push(field(&words, of, &place)),
                _ => place.fail("a kind or a type comes first"),
            }
            continue;
        }
        is_in_kind = words[0] == "kind";
        match words[..] {
            ["group", "core"] => group.name.clear(),
            ["group", name] => name.clone_into(&mut group.name),
            ["version", name, package] => group.versions.push(Version {
                name: name.to_owned(),
                package: package.to_owned(),
                kinds: Vec::new(),
                types: Vec::new(),
            }),
            ["kind", name, scope @ ("namespaced" | "cluster")] => {
                let kind = Kind {
                    name: name.to_owned(),
                    is_namespaced: scope == "namespaced",
                    ..Kind::default()
                };
                version_of(&mut group, &place).kinds.push(kind);
            }
            ["type", name, ref rules @ ..] => {
                let type_ = Type { name: name.to_owned(), rules: owned(rules), fields: Vec::new() };
                version_of(&mut group, &place).types.push(type_);
            }
            _ => place.fail("not a group, version, kind or type"),
        }
    }
    group
}

fn version_of<'a>(group: &'a mut Group, place: &Place<'_>) -> &'a mut Version {
    group.versions.last_mut().unwrap_or_else(|| place.fail("a version comes first"))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| (*it).to_owned()).collect()
}

fn add_to_kind(kind: &mut Kind, words: &[&str], of: (&str, &str), place: &Place<'_>) {
    match words {
        ["names", plural, singular, short @ ..] => {
            kind.names = owned(&[&[*plural, *singular], short].concat());
        }
        ["categories", names @ ..] => kind.categories = owned(names),
        ["verbs", "all"] => kind.verbs = owned(VERBS_ALL),
        ["verbs", "none"] => kind.verbs.clear(),
        ["verbs", verbs @ ..] => kind.verbs = owned(verbs),
        ["stored", prefix, version, hash] => {
            let [prefix, version, hash] = [prefix, version, hash].map(|it| (*it).to_owned());
            kind.stored = Some(Stored { prefix, version, hash });
        }
        ["rules", rules @ ..] => kind.rules = owned(rules),
        // Kubernetes has it, and it is not served here yet.
        [name, ..] if name.starts_with("-/") => {}
        [name, door @ ("part" | "scale" | "action" | "stream" | "proxy"), verbs, kinds @ ..]
            if name.starts_with('/') =>
        {
            let kind_there = kinds.first().map(|it| {
                let reference = full_reference(it, of);
                let (path, kind) =
                    reference.split_once('.').unwrap_or_else(|| place.fail("folder/version.Kind"));
                let (folder, version) =
                    path.split_once('/').unwrap_or_else(|| place.fail("folder/version.Kind"));
                (folder.to_owned(), version.to_owned(), kind.to_owned())
            });
            kind.subresources.push(Subresource {
                name: name[1..].to_owned(),
                door: (*door).to_owned(),
                verbs: verbs.split(',').map(str::to_owned).collect(),
                kind: kind_there,
            });
        }
        _ => place.fail("not a line of a kind"),
    }
}

/// A type of the same version needs no path in front of it.
fn full_reference(name: &str, (folder, version): (&str, &str)) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{folder}/{version}.{name}") }
}

fn field(words: &[&str], of: (&str, &str), place: &Place<'_>) -> Field {
    let [name, number, shape, more @ ..] = words else {
        place.fail("a field is name, number and type")
    };
    let mut field = Field {
        name: (*name).to_owned(),
        number: number.parse().unwrap_or_else(|_| place.fail("the number is none")),
        shape: shape_of(shape, of),
        is_null_written: false,
        default: None,
        values: Vec::new(),
        is_of_items: false,
        rules: Vec::new(),
        go: None,
        embedded: String::new(),
    };
    for word in more {
        match word.split_once('=') {
            Some(("default", json)) => {
                let default = serde_json::from_str(json);
                field.default =
                    Some(default.unwrap_or_else(|_| place.fail("the default is no JSON")));
            }
            Some((which @ ("enum" | "enum[]"), values)) => {
                field.values = values.split('|').map(|it| it.replace("%20", " ")).collect();
                field.is_of_items = which == "enum[]";
            }
            Some(("go", type_)) => field.go = Some(type_.to_owned()),
            None if *word == "null" => field.is_null_written = true,
            _ => field.rules.push((*word).to_owned()),
        }
    }
    field
}

fn shape_of(text: &str, version: (&str, &str)) -> Shape {
    let (count, of) = if let Some(of) = text.strip_prefix("[]") {
        (Count::List, of)
    } else if let Some(of) = text.strip_prefix("{}") {
        (Count::Map, of)
    } else if let Some(of) = text.strip_prefix('*') {
        (Count::Optional, of)
    } else if let Some(of) = text.strip_suffix('?') {
        (Count::UnlessZero, of)
    } else {
        (Count::One, text)
    };
    let is_type = !SCALARS.contains(&of) && !SPECIAL.contains(&of);
    let of = if is_type { full_reference(of, version) } else { of.to_owned() };
    Shape { count, of }
}

impl Shape {
    pub(crate) fn is_scalar(&self) -> bool {
        SCALARS.contains(&&*self.of)
    }

    /// Whether `of` names a type of these files.
    pub(crate) fn is_type(&self) -> bool {
        self.of.contains('/')
    }
}
