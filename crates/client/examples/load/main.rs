//! A load on any API server, cheap enough to run on the same cores: `load KUBECONFIG COMMAND ...`.
//! Prints one JSON object.
//!
//! ```text
//! load KUBECONFIG create  CONNECTIONS SECONDS      ConfigMaps of 1 KB, one after the other on each connection
//! load KUBECONFIG get     CONNECTIONS SECONDS      one of them, again and again
//! load KUBECONFIG fill    COUNT BYTES              so many ConfigMaps of that size
//! load KUBECONFIG list    TIMES                    all of them, at once
//! load KUBECONFIG watch   WATCHERS EVENTS          all watch everything
//! load KUBECONFIG one     WATCHERS EVENTS          each watches another name; events are about one of them
//! load KUBECONFIG idle    WATCHERS SECONDS         watches that see nothing
//! load KUBECONFIG definitions COUNT                definitions of 30 KB, until discovery shows all
//! load KUBECONFIG custom  CONNECTIONS SECONDS      as create, with custom resources that have ten rules
//! load KUBECONFIG single  COUNT                    ConfigMaps of 1 KB, one after the other
//! load KUBECONFIG pods    IMAGE COUNT              pods one after the other, each until it is Ready
//! load KUBECONFIG burst   IMAGE COUNT              pods at once, until all are Ready
//! ```

#![expect(clippy::print_stdout, reason = "the result goes to standard output")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and owns its tasks"
)]

mod calls;
mod connect;
mod extension;
mod pods;
mod watches;

use std::error::Error;
use std::sync::Arc;

use connect::Target;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Where everything of a load is.
const NAMESPACE: &str = "load";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [kubeconfig, command, rest @ ..] = words.as_slice() else {
        return Err("load KUBECONFIG COMMAND ...".into());
    };
    let target = Arc::new(Target::read(kubeconfig)?);
    calls::make_namespace(&target).await?;
    let word =
        |index: usize| -> Result<&str> { Ok(rest.get(index).ok_or("an argument is missing")?) };
    let number = |index: usize| -> Result<usize> { Ok(word(index)?.parse()?) };
    let result = match *command {
        "create" => calls::create(target, number(0)?, number(1)?).await?,
        "get" => calls::get(target, number(0)?, number(1)?).await?,
        "fill" => calls::fill(target, number(0)?, number(1)?).await?,
        "list" => calls::list(&target, number(0)?).await?,
        "watch" => watches::all(target, number(0)?, number(1)?).await?,
        "one" => watches::one(target, number(0)?, number(1)?).await?,
        "idle" => watches::idle(target, number(0)?, number(1)?).await?,
        "definitions" => extension::definitions(&target, number(0)?).await?,
        "custom" => extension::create_custom(target, number(0)?, number(1)?).await?,
        "single" => extension::one_by_one(&target, number(0)?).await?,
        "pods" => pods::one_by_one(&target, word(0)?, number(1)?).await?,
        "burst" => pods::at_once(&target, word(0)?, number(1)?).await?,
        other => return Err(format!("no such load: {other}").into()),
    };
    println!("{result}");
    Ok(())
}
