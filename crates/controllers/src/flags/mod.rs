//! Flags: which controllers run, and what each of them is told. A controller's flags are a
//! `clap::Args` struct in its folder; here they become part of whatever command runs controllers.

mod selection;
mod values;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use stdx::Cidr;

use self::selection::{Choice, Selection};
pub(crate) use self::values::{at_least_one, boolean, duration, rate};
use crate::availability::{Availability, Unavailable};
use crate::{ALL, Descriptor, MANAGER, node_ipam, resources};

const CONTROLLERS: &str = "controllers";

/// Settings of one controller, by their type.
type Entry = (TypeId, Arc<dyn Any + Send + Sync>);

/// The flags of one controller, with the type of its settings erased.
#[derive(Clone, Copy)]
pub struct Flags {
    add: fn(Command) -> Command,
    read: fn(&ArgMatches) -> Result<Option<Entry>, clap::Error>,
}

impl Flags {
    pub(crate) const NONE: Self = Self { add: |command| command, read: |_| Ok(None) };

    pub(crate) const fn of<S: Args + Send + Sync + 'static>() -> Self {
        let read = |matches: &ArgMatches| {
            let entry: Entry = (TypeId::of::<S>(), Arc::new(S::from_arg_matches(matches)?));
            Ok(Some(entry))
        };
        Self { add: S::augment_args, read }
    }
}

/// What the flags say. The default is what they say when there are none.
#[derive(Clone)]
pub struct Settings {
    selection: Selection,
    /// By the type that the controller reads them as; each controller has its own.
    by_type: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Settings {
    pub fn is_selected(&self, controller: &Descriptor) -> bool {
        self.selection.has(controller)
    }

    /// The same where a star does not mean the controllers with these names.
    #[must_use]
    pub fn leaving_out(mut self, names: &'static [&'static str]) -> Self {
        self.selection.leave_out(names);
        self
    }

    /// The same where a star means the controllers with these names, too.
    #[must_use]
    pub fn adding(mut self, names: &'static [&'static str]) -> Self {
        self.selection.add(names);
        self
    }

    /// The same where nodes get parts of `pods`, unless the flags say otherwise.
    #[must_use]
    pub fn allocating_node_cidrs(mut self, pods: &[Cidr], services: &[Cidr]) -> Self {
        let settings = self.get::<node_ipam::Settings>().allocating(pods, services);
        self.by_type.insert(TypeId::of::<node_ipam::Settings>(), Arc::new(settings));
        self
    }

    /// The names of the selected controllers.
    pub fn selected(&self) -> impl Iterator<Item = &'static str> {
        ALL.iter().filter(|it| self.is_selected(it)).map(|it| it.name)
    }

    /// Why a controller that was asked for by its name cannot run, if one cannot.
    pub fn check(&self, availability: &Availability) -> Result<(), Unavailable> {
        let mut named = ALL.iter().filter(|it| self.selection.names(it));
        named.try_for_each(|it| availability.check(it))
    }

    /// Those that run in a cluster that has this.
    pub(crate) fn running(
        &self,
        availability: &Availability,
    ) -> impl Iterator<Item = &'static Descriptor> {
        ALL.iter().filter(|it| self.is_selected(it) && availability.check(it).is_ok())
    }

    /// The service accounts that the controllers act as that run.
    pub fn identities(&self, availability: &Availability) -> BTreeSet<&'static str> {
        let selected = self.running(availability).map(|it| it.identity);
        let selected = selected.filter(|it| *it != MANAGER);
        selected.chain([resources::IDENTITY]).collect()
    }

    pub(crate) fn get<S: 'static>(&self) -> &S {
        let settings = self.by_type.get(&TypeId::of::<S>()).and_then(|it| it.downcast_ref());
        settings.expect("a controller reads the settings that its descriptor has the flags of")
    }

    /// As from a command line.
    pub fn parse(flags: &[&str]) -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new(CONTROLLERS).no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::parse(&[]).expect("no flag is required, and every default is valid")
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let controllers = Arg::new(CONTROLLERS)
            .long(CONTROLLERS)
            .value_name("NAME,...")
            .help(selection::help())
            .action(ArgAction::Append)
            .value_delimiter(',')
            // `-name` is a value, not a flag.
            .allow_hyphen_values(true)
            .default_value("*")
            .value_parser(selection::parse_choice);
        let command = command.next_help_heading("Controllers").arg(controllers);
        let command = ALL.iter().fold(command, |command, it| (it.flags.add)(command));
        command.next_help_heading(None)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let choices = matches.get_many::<Choice>(CONTROLLERS).into_iter().flatten().copied();
        let mut by_type = BTreeMap::new();
        for controller in ALL {
            by_type.extend((controller.flags.read)(matches)?);
        }
        Ok(Self { selection: Selection::new(choices), by_type })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::{ALL, endpoint_slices, node_lifecycle};

    /// The short names of the controllers that run.
    fn selected(flags: &[&str]) -> String {
        let settings = Settings::parse(flags).unwrap();
        let selected = ALL.iter().filter(|it| settings.is_selected(it));
        let names = selected.map(|it| it.name.trim_end_matches("-controller"));
        names.collect::<Vec<_>>().join(" ")
    }

    fn refused(flag: &str) -> String {
        Settings::parse(&[flag]).err().map(|it| it.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_star_is_all_that_run_by_default_and_names_add_or_take_away() {
        let all = ALL.iter().filter(|it| it.is_on_by_default).count();
        assert_eq!(selected(&[]).split(' ').count(), all);
        assert_eq!(selected(&["--controllers=*"]), selected(&[]));
        assert_eq!(
            selected(&["--controllers=deployment-controller,namespace-controller"]),
            "deployment namespace"
        );
        let without = selected(&["--controllers=*,-deployment-controller"]);
        assert!(!without.contains("deployment") && without.split(' ').count() == all - 1);
        assert_eq!(selected(&["--controllers", "-deployment-controller"]), "");
    }

    #[test]
    fn what_is_said_first_of_a_controller_counts_and_flags_add_up() {
        assert_eq!(
            selected(&["--controllers=namespace-controller,-namespace-controller"]),
            "namespace"
        );
        assert_eq!(
            selected(&[
                "--controllers=-namespace-controller",
                "--controllers=namespace-controller"
            ]),
            ""
        );
        assert_eq!(
            selected(&["--controllers=podgc", "--controllers=endpoint"]),
            "endpoints pod-garbage-collector"
        );
    }

    #[test]
    fn what_is_left_out_of_a_star_can_be_named() {
        let name = "service-lb-controller";
        let has = |flag: &str| {
            let settings =
                Settings::parse(&[flag]).unwrap().leaving_out(&["service-lb-controller"]);
            settings.selected().any(|it| it == name)
        };
        assert!(!has("--controllers=*"));
        assert!(has("--controllers=*,service-lb-controller"));
        assert!(selected(&[]).contains("service-lb"));
    }

    #[test]
    fn what_is_added_to_a_star_can_be_switched_off() {
        let name = "token-cleaner-controller";
        let has = |flag: &str| {
            let settings = Settings::parse(&[flag]).unwrap().adding(&["token-cleaner-controller"]);
            settings.selected().any(|it| it == name)
        };
        assert!(has("--controllers=*"));
        assert!(!has("--controllers=*,-token-cleaner-controller"));
        assert!(!has("--controllers=namespace-controller"));
    }

    #[test]
    fn older_names_mean_the_same() {
        assert_eq!(selected(&["--controllers=deployment,-podgc"]), "deployment");
        for controller in ALL {
            for alias in controller.aliases {
                let of = |name: &str| selected(&[&format!("--controllers={name}")]);
                assert_eq!(of(alias), of(controller.name));
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_known_one() {
        let said = refused("--controllers=*,-deploymnet");
        let expected =
            r#""deploymnet" is not in the list of known controllers; the nearest is "deployment""#;
        assert!(said.contains(expected) && said.contains("--controllers"), "{said}");
        let said = refused("--controllers=replicasets-controller");
        assert!(said.contains(r#"the nearest is "replicaset-controller""#), "{said}");
    }

    #[test]
    fn each_controller_reads_its_own_flags() {
        let settings =
            Settings::parse(&["--node-monitor-grace-period=1m30s", "--max-endpoints-per-slice=7"])
                .unwrap();
        let nodes = settings.get::<node_lifecycle::Settings>();
        assert_eq!(nodes.node_monitor_grace_period.as_secs(), 90);
        assert_eq!(nodes.node_startup_grace_period.as_secs(), 60);
        assert_eq!(settings.get::<endpoint_slices::Settings>().max_endpoints_per_slice, 7);
    }

    #[test]
    fn values_out_of_bounds_are_refused_by_the_name_of_their_flag() {
        for flag in [
            "--concurrent-deployment-syncs=0",
            "--concurrent-gc-syncs=many",
            "--max-endpoints-per-slice=1001",
            "--node-monitor-grace-period=50",
            "--node-startup-grace-period=-1s",
            "--node-eviction-rate=-1",
            "--unhealthy-zone-threshold=NaN",
            "--enable-garbage-collector=maybe",
            "--allocate-node-cidrs=yes",
            "--namespace-sync-period=5",
        ] {
            let (name, _) = flag.split_once('=').unwrap();
            assert!(refused(flag).contains(name), "{flag}: {}", refused(flag));
        }
    }
}
