//! Configs: how a job runs on its GPUs.

use crate::ids::Name;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Configuration of a job on its GPUs: named numbers, called knobs. Examples are the degree of tensor
/// parallelism (`tp`) and a shift in time (`shift`). Most jobs have none.
///
/// A scheduler sets the config in a [`Shape`](crate::Shape) or an
/// [`Assignment`](crate::Assignment), and execution models read it. On a cluster, the job gets each
/// knob as an environment variable, such as `BLOX_TP=4`.
///
/// ```
/// use blox_core::Config;
/// let plan = Config::of([("tp", 4.0), ("pp", 2.0)]);
/// assert_eq!((plan.get("tp"), plan.get("zero")), (Some(4.0), None));
/// assert_eq!(plan.to_string(), "pp=2 tp=4");
/// assert!(plan.differs_only_in(&plan.with("shift", 3.0), &["shift"]));
/// ```
#[derive(Clone, Default)]
pub struct Config(Option<Arc<Knobs>>);

/// Knobs in order of name.
type Knobs = Vec<(Name, f64)>;

impl Config {
    /// No knob.
    pub const NONE: Config = Config(None);

    /// Returns a config of these knobs. If a name occurs twice, the last value counts. A value that is
    /// not finite is left out.
    pub fn of(knobs: impl IntoIterator<Item = (impl Into<Name>, f64)>) -> Self {
        let mut list = Knobs::new();
        for (name, value) in knobs {
            set(&mut list, name.into(), value);
        }
        Config((!list.is_empty()).then(|| Arc::new(list)))
    }

    /// Returns the value of a knob.
    pub fn get(&self, knob: &str) -> Option<f64> {
        let list = self.list();
        let at = list.binary_search_by(|(name, _)| name.as_str().cmp(knob));
        Some(list[at.ok()?].1)
    }

    /// Returns the config with a knob set.
    #[must_use]
    pub fn with(&self, knob: &str, value: f64) -> Self {
        let mut list = self.list().to_vec();
        set(&mut list, knob.into(), value);
        Config((!list.is_empty()).then(|| Arc::new(list)))
    }

    /// Returns whether there is no knob.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the knobs in order of name.
    pub fn knobs(&self) -> impl Iterator<Item = (&Name, f64)> {
        self.list().iter().map(|(name, value)| (name, *value))
    }

    /// Returns whether both configs agree in all knobs except these.
    pub fn differs_only_in(&self, other: &Config, knobs: &[&str]) -> bool {
        let counts = |(name, _): &(&Name, f64)| !knobs.contains(&name.as_str());
        let of = |config: &'_ Config| -> Vec<(Name, f64)> {
            let counted = config.knobs().filter(counts);
            counted.map(|(name, value)| (name.clone(), value)).collect()
        };
        self == other || of(self) == of(other)
    }

    fn list(&self) -> &[(Name, f64)] {
        self.0.as_ref().map_or(&[], |list| list)
    }
}

fn set(list: &mut Knobs, name: Name, value: f64) {
    match list.binary_search_by(|(known, _)| known.cmp(&name)) {
        Ok(at) if value.is_finite() => list[at].1 = value,
        Ok(at) => drop(list.remove(at)),
        Err(at) if value.is_finite() => list.insert(at, (name, value)),
        Err(_) => {}
    }
}

impl PartialEq for Config {
    #[inline]
    fn eq(&self, other: &Config) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.knobs().enumerate() {
            let space = if i > 0 { " " } else { "" };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.knobs()).finish()
    }
}

/// Whole numbers are written without a decimal point, and no knob as null.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_none() {
            return to.serialize_none();
        }
        let mut map = to.serialize_map(Some(self.list().len()))?;
        for (name, value) in self.knobs() {
            match value as i64 {
                whole if whole as f64 == value && whole.abs() < 1 << 53 => {
                    map.serialize_entry(name, &whole)?;
                }
                _ => map.serialize_entry(name, &value)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let knobs = Option::<BTreeMap<Name, f64>>::deserialize(from)?;
        // Earlier journals and logs have a batch by this name.
        let known = |name: Name| match name.as_str() {
            "per_gpu" => Name::from("batch_per_gpu"),
            _ => name,
        };
        let knobs = knobs.into_iter().flatten();
        Ok(Config::of(knobs.map(|(name, value)| (known(name), value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_in_order_of_name_and_finite() {
        let config = Config::of([("tp", 4.0), ("a", f64::NAN), ("pp", 2.5), ("tp", 8.0)]);
        assert_eq!(config.to_string(), "pp=2.5 tp=8");
        assert!(Config::of([("a", f64::INFINITY)]).is_none());
        assert_eq!(config.with("tp", f64::NAN).to_string(), "pp=2.5");
        assert_eq!(Config::NONE.with("tp", 1.0), Config::of([("tp", 1.0)]));
        assert_eq!(std::mem::size_of::<Config>(), 8);
    }

    #[test]
    fn configs_differ_only_in_the_named_knobs() {
        let plan = Config::of([("tp", 4.0), ("shift", 1.0)]);
        assert!(plan.differs_only_in(&plan.with("shift", 2.0), &["shift"]));
        assert!(plan.differs_only_in(&Config::of([("tp", 4.0)]), &["shift"]));
        assert!(!plan.differs_only_in(&plan.with("tp", 2.0), &["shift"]));
        assert!(!plan.differs_only_in(&Config::NONE, &["shift"]));
        assert!(Config::NONE.differs_only_in(&Config::NONE, &[]));
    }

    #[test]
    fn configs_of_earlier_journals_are_read() {
        let read = |text: &str| serde_json::from_str::<Config>(text).unwrap();
        let batch = read(r#"{"per_gpu":32,"accumulation":1}"#);
        assert_eq!(batch.to_string(), "accumulation=1 batch_per_gpu=32");
        assert_eq!(read("null"), Config::NONE);
        for config in [batch, Config::NONE, Config::of([("lr", 0.1)])] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(read(&text), config, "{text}");
        }
        let whole = serde_json::to_string(&Config::of([("tp", 4.0)])).unwrap();
        assert_eq!(whole, r#"{"tp":4}"#);
    }
}
