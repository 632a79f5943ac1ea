//! `xebec image`: the images of the node on this machine. Works on its directory, whether or not a
//! cluster runs there; one that runs sees the change at once.

use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use images::{Reference, Store};
use node_api::Images as _;
use node_api::images::{Credentials, Image};

use crate::cluster::Selection;
use crate::data_dir::{self, DataDir};
use crate::node;
use crate::progress::{align, say, say_error};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    selection: Selection,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Load images from an OCI or docker archive, compressed or not
    Load {
        /// The archive; `-` is standard input, as in `docker save REF | xebec image load -`
        file: PathBuf,
        /// Call the image this, whatever the archive says
        #[arg(long = "as", value_name = "REF")]
        reference: Option<String>,
    },
    /// List the images
    List,
    /// Remove images by name or id; one that a container uses stays
    Remove {
        /// Names or ids of images
        #[arg(required = true, value_name = "REF")]
        references: Vec<String>,
    },
    /// Pull an image from its registry
    Pull {
        /// Name of the image
        #[arg(value_name = "REF")]
        reference: String,
        /// Who you are to the registry
        #[arg(long, value_name = "USER:PASSWORD", value_parser = parse_credentials)]
        creds: Option<Credentials>,
    },
}

/// As many digits of an id as are shown; fewer would meet by chance.
const ID_DIGITS: usize = 12;

pub(crate) fn run(flags: Flags) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the tokio runtime")?;
    if !rustix::process::geteuid().is_root() {
        bail!("images belong to the node, which is root's: use `sudo xebec image ...`");
    }
    let selection = flags.selection;
    runtime.block_on(async {
        match flags.command {
            Command::Load { file, reference } => {
                let path = selection.find_or_default()?;
                load(&path, &file, reference.as_deref()).await
            }
            Command::List => list(&selection.find()?),
            Command::Remove { references } => {
                remove(&open_existing(&selection.find()?)?, &references).await
            }
            Command::Pull { reference, creds } => {
                let store = open_or_make(&selection.find_or_default()?)?;
                pull(&store, &reference, creds.into_iter().collect()).await
            }
        }
    })
}

fn open_existing(path: &Path) -> Result<Store> {
    data_dir::running(path)?;
    node::open_images(path)
}

/// Images may come before the first cluster; then the directory is made as `up` makes it.
fn open_or_make(path: &Path) -> Result<Store> {
    if let Err(data_dir::Error::Absent(_)) = data_dir::running(path) {
        drop(DataDir::open(path)?);
        say_error(&format!("there is no cluster yet: {} is for the one to come", path.display()));
    }
    open_existing(path)
}

fn parse_credentials(text: &str) -> Result<Credentials, String> {
    let (user, password) = text.split_once(':').ok_or("expected USER:PASSWORD")?;
    Ok(Credentials { registry: None, user: user.to_owned(), password: password.to_owned() })
}

async fn load(path: &Path, file: &Path, name: Option<&str>) -> Result<()> {
    let name = name.map(Reference::parse).transpose()?;
    let is_stdin = file == Path::new("-");
    if !is_stdin && !file.is_file() {
        bail!("there is no archive {}", file.display());
    }
    let store = open_or_make(path)?;
    let images = if is_stdin {
        let kept = keep_stdin(path)?;
        let file = format!("/proc/self/fd/{}", kept.as_raw_fd());
        store.load_as(Path::new(&file), name).await.context("standard input")?
    } else {
        store.load_as(file, name).await?
    };
    for image in images {
        say_stored("loaded", &image);
        if image.tags.is_empty() {
            say_error("it has no name in the archive: load it with --as to use it in a pod");
        }
    }
    Ok(())
}

/// What comes from there, in a file without a name: an archive is not read in order.
fn keep_stdin(path: &Path) -> Result<File> {
    if std::io::stdin().is_terminal() {
        bail!("standard input is a terminal: give a file, or pipe an archive in");
    }
    let doing = || format!("keeping standard input in {}", path.display());
    let name = path.join(format!("image-{}.tmp", stdx::World::system().random.uuid()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&name)
        .with_context(doing)?;
    std::fs::remove_file(&name).with_context(doing)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).with_context(doing)?;
    Ok(file)
}

async fn pull(store: &Store, reference: &str, credentials: Vec<Credentials>) -> Result<()> {
    say_error(&format!("pulling {}", Reference::parse(reference)?));
    let image = store.pull(reference, credentials).await?;
    say_stored("pulled", &image);
    Ok(())
}

fn say_stored(done: &str, image: &Image) {
    let names = if image.tags.is_empty() { &image.digests } else { &image.tags };
    match names.is_empty() {
        true => say(&format!("{done} {}", image.id)),
        false => say(&format!("{done} {} ({})", names.join(", "), image.id)),
    }
}

/// Goes on after a failure and tells all.
async fn remove(store: &Store, references: &[String]) -> Result<()> {
    let mut n_failed = 0;
    for reference in references {
        match remove_one(store, reference).await {
            Ok(()) => say(&format!("removed {reference}")),
            Err(err) => {
                n_failed += 1;
                say_error(&format!("error: {err:#}"));
            }
        }
    }
    match n_failed {
        0 => Ok(()),
        n => bail!("{n} of {} could not be removed", references.len()),
    }
}

async fn remove_one(store: &Store, reference: &str) -> Result<()> {
    let reference = match find_by_short_id(store, reference) {
        Some(id) => id,
        None => reference.to_owned(),
    };
    if store.find(&reference)?.is_none() {
        bail!("there is no image {reference}");
    }
    Ok(store.remove(&reference).await?)
}

fn find_by_short_id(store: &Store, text: &str) -> Option<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    if digits.len() < ID_DIGITS || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let id = format!("sha256:{digits}");
    let mut found = store.list().into_iter().filter(|it| it.id.as_str().starts_with(&id));
    found.next().map(|it| it.id.to_string())
}

/// Makes nothing, also where there is nothing yet.
fn list(path: &Path) -> Result<()> {
    data_dir::running(path)?;
    let has_images = path.join("images").exists();
    let images = if has_images { node::open_images(path)?.list() } else { Vec::new() };
    table(&images).iter().for_each(|it| say(it));
    Ok(())
}

/// A line for each name, sorted.
fn table(images: &[Image]) -> Vec<String> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for image in images {
        let digits = image.id.as_str().trim_start_matches("sha256:");
        let id = digits.get(..ID_DIGITS).unwrap_or(digits);
        let none = "<none>".to_owned();
        let split = |it: &String| it.rsplit_once(':').map(|(a, b)| (a.to_owned(), b.to_owned()));
        let mut names: Vec<(String, String)> = image.tags.iter().filter_map(split).collect();
        if names.is_empty() {
            let name = image.digests.first().and_then(|it| it.split_once('@'));
            names.push((name.map_or_else(|| none.clone(), |it| it.0.to_owned()), none));
        }
        let row = |(name, tag)| [name, tag, id.to_owned(), render_size(image.size)];
        rows.extend(names.into_iter().map(row));
    }
    rows.sort();
    rows.insert(0, ["REPOSITORY", "TAG", "IMAGE ID", "SIZE"].map(str::to_owned));
    align(&rows)
}

/// Three digits, as docker shows it.
fn render_size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB"] {
        if size < 1000.0 {
            let digits = if unit == "B" || size >= 100.0 { 0 } else { 1 };
            return format!("{size:.digits$}{unit}");
        }
        size /= 1000.0;
    }
    format!("{size:.2}GB")
}

#[cfg(test)]
mod tests {
    use node_api::ImageId;
    use node_api::images::{Image, ImageConfig};

    use super::{render_size, table};

    #[test]
    fn images_are_listed_by_name() {
        let image = |id: &str, tags: &[&str], size| Image {
            id: ImageId::new(format!("sha256:{}", id.repeat(32))),
            tags: tags.iter().map(|it| (*it).to_owned()).collect(),
            digests: Vec::new(),
            size,
            config: ImageConfig::default(),
        };
        let images = [
            image("ab", &["host:5000/b:2", "docker.io/library/a:latest"], 1_234_567),
            image("cd", &[], 12),
        ];
        assert_eq!(
            table(&images),
            [
                "REPOSITORY            TAG      IMAGE ID       SIZE",
                "<none>                <none>   cdcdcdcdcdcd   12B",
                "docker.io/library/a   latest   abababababab   1.2MB",
                "host:5000/b           2        abababababab   1.2MB",
            ]
        );
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        let check = |bytes, expected| assert_eq!(render_size(bytes), expected);
        check(0, "0B");
        check(999, "999B");
        check(1_500, "1.5kB");
        check(123_456, "123kB");
        check(30_000_000, "30.0MB");
        check(2_500_000_000, "2.50GB");
    }
}
