//! All series of one metric, by their labels' values.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::description::Description;
use crate::interner::Interner;
use crate::metric::Metric;
use crate::text::{self, Sample};

/// Cheap to clone; clones are the same family.
pub struct Family<M: Metric, const N: usize>(Arc<Inner<M, N>>);

struct Inner<M: Metric, const N: usize> {
    description: Description<N>,
    shape: M::Shape,
    series: Interner<M, N>,
}

impl<M: Metric, const N: usize> Clone for Family<M, N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Metric, const N: usize> Family<M, N> {
    pub(crate) fn new(description: Description<N>, shape: M::Shape) -> Self {
        Self(Arc::new(Inner { description, shape, series: Interner::default() }))
    }

    /// The series with these values, in the order of the description's labels. It is shown from now
    /// on; whoever needs it often keeps it.
    pub fn with(&self, values: [&str; N]) -> Arc<M> {
        self.0.series.get(values, |_| M::new(self.0.shape))
    }

    /// Forgets every series, before all that there are now are set anew.
    pub fn clear(&self) {
        self.0.series.clear();
    }
}

/// A family whatever it is made of.
pub(crate) trait Render: Send + Sync {
    fn render(&self, page: &mut String);
}

impl<M: Metric, const N: usize> Render for Family<M, N> {
    /// Nothing if there is no series, as Prometheus' libraries have it.
    fn render(&self, page: &mut String) {
        let Description { name, stability, help, labels } = self.0.description;
        let mut order: [usize; N] = std::array::from_fn(|index| index);
        order.sort_by_key(|index| labels[*index]);
        let mut series = self.0.series.entries();
        if series.is_empty() {
            return;
        }
        series.sort_by(|a, b| {
            let values = |it: &usize| a.labels[*it].cmp(&b.labels[*it]);
            order.iter().map(values).find(|it| it.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        let help = text::escape_help(help);
        let _ = writeln!(page, "# HELP {name} {stability}{help}\n# TYPE {name} {}", M::TYPE);
        for entry in series {
            let pairs = order.iter().map(|index| (labels[*index], &*entry.labels[*index]));
            let labels = text::render_labels(pairs);
            entry.value.render(&mut Sample { page, name, labels: &labels });
        }
    }
}
