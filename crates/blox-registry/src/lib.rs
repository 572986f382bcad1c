//! Registries of policies, components and schedulers by name, for command lines and configuration
//! files. Other crates can add their own entries.
//!
//! | Task | Start with |
//! |---|---|
//! | Add a scheduler or a policy by name | [`Registry`], [`ComponentRegistry::add`] |
//! | Describe a parameter | [`param`], [`numeric`], [`without_default`] |
//! | Read a parameter | [`Params`] |
//! | Parse `las{guard_h=500}` | [`ComponentSpec`] |
//! | Name the data that a scheduler is about | [`Registered::with_job_data`] |

use blox_core::cluster::spec::NodeSpec;
use blox_core::job::spec::{SpecError, Submission};
use blox_core::pipeline::Pipeline;
use blox_core::policy::{
    AnyAdmission, AnyClusterManager, AnyPlacement, AnyScheduling, MetricCollector,
};
use blox_core::sorted::SortedMap;
use blox_core::suggest::{did_you_mean, one_of};
use blox_core::units::Seconds;
use dyn_clone::DynClone;
use serde_json::Value;
use std::any::{Any, TypeId};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An invalid name or parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Unknown name.
    #[error("unknown {kind} `{name}`{suggestion}known: {known}")]
    UnknownName {
        /// Scheduler, placement, ...
        kind: &'static str,
        /// The name.
        name: String,
        /// Suggestion of [`did_you_mean`].
        suggestion: String,
        /// All known names.
        known: String,
    },
    /// Unknown parameter.
    #[error("{kind} `{name}` has no parameter `{param}`{suggestion}it has: {known}")]
    UnknownParam {
        /// Scheduler, placement, ...
        kind: &'static str,
        /// The name.
        name: String,
        /// The parameter.
        param: String,
        /// Suggestion of [`did_you_mean`].
        suggestion: String,
        /// All its parameters.
        known: String,
    },
    /// The policies cannot be composed to a scheduler.
    #[error(transparent)]
    Compose(#[from] blox_core::ComposeError),
    /// Invalid value.
    #[error("parameter `{param}` is `{found}`, expected {expected}")]
    BadValue {
        /// The parameter.
        param: String,
        /// Its value.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// Text that does not have the form `name{key=value,...}`.
    #[error(
        "`{text}` is not understood, expected NAME or NAME{{PARAMETER=VALUE,...}}{}",
        if is_list(text) { "; a blank separates several names" } else { "" }
    )]
    Syntax {
        /// The text.
        text: String,
    },
}

/// Returns a text for a message, in which control characters are escaped.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns whether a text is a name of letters, digits, `-`, `_` and `.`.
fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(fits)
}

/// Returns the parameters in the braces of a name, each with the text of its value. Returns `None` if
/// a part between commas is empty, or if the first part names no parameter.
///
/// ```
/// use blox_registry::parameters_of;
/// let found = parameters_of("by=where(age <= 1h, 0, 1), submit,preemptive=true");
/// let by = "where(age <= 1h, 0, 1), submit".to_owned();
/// assert_eq!(found, Some(vec![("by", by), ("preemptive", "true".to_owned())]));
/// assert_eq!(parameters_of("a=1,"), None);
/// ```
pub fn parameters_of(inside: &str) -> Option<Vec<(&str, String)>> {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    if inside.trim().is_empty() {
        return Some(pairs);
    }
    for part in split_unquoted(inside, ',') {
        if part.trim().is_empty() {
            return None;
        }
        // `a <= b` and `a == b` name no parameter.
        let pair = part.split_once('=').map(|(key, value)| (key.trim(), value));
        let pair = pair.filter(|(key, value)| is_plain(key) && !value.starts_with('='));
        match (pair, pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key, value.to_owned())),
            (None, Some((_, value))) => *value = format!("{value},{part}"),
            (None, None) => return None,
        }
    }
    Some(pairs)
}

/// Splits a text at a separator, except in single or double quotes. A quote without an end is an
/// ordinary character.
///
/// ```
/// use blox_registry::split_unquoted;
/// assert_eq!(split_unquoted("a|'b|c'|it's", '|'), ["a", "'b|c'", "it's"]);
/// ```
pub fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut end_of_quote) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        if at < end_of_quote {
            continue;
        }
        if c == separator {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        } else if c == '\'' || c == '"' {
            let inside = at + 1;
            let length = text[inside..].find(c);
            end_of_quote = length.map_or(0, |length| inside + length + 1);
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Returns whether a text is a list of names with commas.
fn is_list(text: &str) -> bool {
    let is_name = |name: &str| {
        let mut letters = name.trim().chars();
        !name.trim().is_empty() && letters.all(|c| c.is_alphanumeric() || "-_".contains(c))
    };
    text.contains(',') && text.split(',').all(is_name)
}

/// A name with parameters, written `las{guard_h=1000}`.
///
/// A value may contain commas: text after a comma continues the value before it unless `NAME=` begins it.
/// Text in single or double quotes is not split. Control characters are refused, and line breaks are
/// blanks.
///
/// ```
/// use blox_registry::ComponentSpec;
/// let n: ComponentSpec = "las{guard_h=500, gpu_time=true}".parse()?;
/// assert_eq!(n.name, "las");
/// assert_eq!(n.to_string(), "las{gpu_time=true,guard_h=500}");
/// let n: ComponentSpec = "poisson{gpu_mix=1:70,2:30,load=8}".parse()?;
/// assert_eq!(n.params.text("gpu_mix"), "1:70,2:30");
/// let n: ComponentSpec = "order{by=where(age <= 1h, 0, 1), submit,preemptive=true}".parse()?;
/// assert_eq!(n.params.text("by"), "where(age <= 1h, 0, 1), submit");
/// # Ok::<(), blox_registry::RegistryError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComponentSpec {
    /// The name.
    pub name: String,
    /// The parameters.
    pub params: Params,
}

impl ComponentSpec {
    /// Creates a name without parameters.
    pub fn plain(name: impl Into<String>) -> Self {
        ComponentSpec {
            name: name.into(),
            params: Params::default(),
        }
    }
}

impl std::str::FromStr for ComponentSpec {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || RegistryError::Syntax {
            text: printable(text),
        };
        // A formula in a file may have several lines.
        let line = text.replace(['\n', '\r', '\t'], " ");
        let line = line.trim();
        let (name, inside) = match line.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').ok_or_else(wrong)?),
            None => (line, ""),
        };
        if !is_plain(name) {
            return Err(wrong());
        }
        let mut params = Params::default();
        let pairs = parameters_of(inside).ok_or_else(wrong)?;
        for (key, value) in pairs {
            let value = Param::read(value.trim());
            if value.written.chars().any(char::is_control) {
                return Err(wrong());
            }
            if let Some(earlier) = params.values.get(key) {
                return Err(RegistryError::BadValue {
                    param: key.to_owned(),
                    found: format!("{}, {}", earlier.written, value.written),
                    expected: "one value".to_owned(),
                });
            }
            params.values.insert(key.to_owned(), value);
        }
        Ok(ComponentSpec {
            name: name.to_owned(),
            params,
        })
    }
}

impl fmt::Display for ComponentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.params.values.is_empty() {
            return Ok(());
        }
        let inside: Vec<String> = self
            .params
            .values
            .iter()
            .map(|(k, v)| format!("{k}={}", v.written))
            .collect();
        write!(f, "{{{}}}", inside.join(","))
    }
}

/// Parameters by name. In the function that builds a component, a parameter that is not set has the
/// default of its [description](ParamDoc).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    values: SortedMap<String, Param>,
    defaults: Vec<(&'static str, Param)>,
}

/// A value with its original text: a text may look like a number.
#[derive(Clone, Debug, PartialEq)]
struct Param {
    value: Value,
    written: String,
}

impl Param {
    fn read(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(Value::String(s)) => Value::String(s).into(),
            Ok(value) => Param {
                value,
                written: text.to_owned(),
            },
            Err(_) => Value::from(text.trim_matches('"')).into(),
        }
    }
}

impl From<Value> for Param {
    fn from(value: Value) -> Self {
        let written = match &value {
            Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        Param { value, written }
    }
}

impl Params {
    /// Returns parameters that all have the defaults of their descriptions.
    pub fn of(described: &[ParamDoc]) -> Self {
        Params::with(SortedMap::new(), described)
    }

    fn with(values: SortedMap<String, Param>, described: &[ParamDoc]) -> Self {
        let described = described.iter().filter(|doc| !doc.default.is_none());
        let defaults = described.map(|doc| (doc.name, Param::read(&doc.default.to_string())));
        Params {
            values,
            defaults: defaults.collect(),
        }
    }

    /// Sets a parameter.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into().into());
    }

    /// Returns the names of all set parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns whether a parameter is set.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns whether no parameter is set.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns a finite number.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn f64(&self, name: &str) -> Result<f64, RegistryError> {
        self.number(name, "a number", |_| true)
    }

    /// Returns a finite number that passes a check. `expected` describes the valid numbers.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn number(
        &self,
        name: &str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<f64, RegistryError> {
        self.get(name, expected, |v| {
            v.as_f64().filter(|f| f.is_finite() && fits(*f))
        })
    }

    /// Returns a whole number that is not negative.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn u64(&self, name: &str) -> Result<u64, RegistryError> {
        self.get(name, "a whole number from 0", Value::as_u64)
    }

    /// Returns a whole number within bounds.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<u64, RegistryError> {
        let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let read = |v: &Value| v.as_u64().filter(|n| bounds.contains(n));
        self.get(name, &expected, read)
    }

    /// Returns `true` or `false`.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn bool(&self, name: &str) -> Result<bool, RegistryError> {
        self.get(name, "true or false", Value::as_bool)
    }

    /// Returns a text as written, even if it looks like a number. Empty if the parameter is neither
    /// set nor described.
    pub fn text(&self, name: &str) -> &str {
        self.find(name).map_or("", |found| &found.written)
    }

    /// Returns a duration above 0, given in hours.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn hours(&self, name: &str) -> Result<Seconds, RegistryError> {
        self.number(name, "a number of hours above 0", |h| {
            h > 0.0 && (h * 3600.0).is_finite()
        })
        .map(Seconds::from_hours)
    }

    /// Returns a positive number of seconds.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn seconds(&self, name: &str) -> Result<Seconds, RegistryError> {
        self.number(name, "a number of seconds above 0", |s| s > 0.0)
            .map(Seconds::new)
    }

    /// Returns one of several words.
    ///
    /// # Errors
    /// The parameter has another value.
    pub fn choice(
        &self,
        name: &str,
        words: &[&'static str],
    ) -> Result<&'static str, RegistryError> {
        let written = self.text(name);
        let word = words.iter().find(|w| written == **w);
        word.copied()
            .ok_or_else(|| self.wrong(name, one_of(written, words.iter().copied())))
    }

    /// Returns the error for a parameter whose value is not as `expected`.
    pub fn wrong(&self, name: &str, expected: impl Into<String>) -> RegistryError {
        RegistryError::BadValue {
            param: name.to_owned(),
            found: self
                .find(name)
                .map_or("none", |found| &found.written)
                .to_owned(),
            expected: expected.into(),
        }
    }

    /// Returns the set value of a parameter, otherwise its default.
    fn find(&self, name: &str) -> Option<&Param> {
        let default = || self.defaults.iter().find(|(known, _)| *known == name);
        let set = self.values.get(name);
        set.or_else(|| default().map(|(_, value)| value))
    }

    fn get<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, RegistryError> {
        let found = self.find(name).and_then(|found| read(&found.value));
        found.ok_or_else(|| self.wrong(name, expected))
    }
}

/// Description of a parameter, for help texts and for checking names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamDoc {
    /// Name of the parameter.
    pub name: &'static str,
    /// Default value.
    pub default: DefaultValue,
    /// Effect of the parameter, with its unit.
    pub about: &'static str,
}

/// Default of a parameter. Its text is the value as written on a command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// None: the parameter is given, or left out.
    None,
    /// A text.
    Text(&'static str),
    /// A number.
    Number(f64),
    /// Numbers, which the text joins by `/`.
    Numbers(&'static [f64]),
}

impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefaultValue::None => Ok(()),
            DefaultValue::Text(text) => f.write_str(text),
            DefaultValue::Number(number) => number.fmt(f),
            DefaultValue::Numbers(numbers) => {
                let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
                f.write_str(&texts.join("/"))
            }
        }
    }
}

impl PartialEq<DefaultValue> for &str {
    fn eq(&self, default: &DefaultValue) -> bool {
        **self == *default.to_string()
    }
}

impl DefaultValue {
    /// Returns whether there is no default.
    pub fn is_none(self) -> bool {
        self == DefaultValue::None
    }
}

/// Describes a parameter without a default.
///
/// ```
/// use blox_registry::{Params, without_default};
///
/// let load = without_default("load", "jobs per hour");
/// assert!(Params::of(&[load]).f64("load").is_err());
/// ```
pub const fn without_default(name: &'static str, about: &'static str) -> ParamDoc {
    ParamDoc {
        name,
        default: DefaultValue::None,
        about,
    }
}

/// Describes a parameter: its name, its default as written on a command line, and its effect with
/// its unit.
///
/// ```
/// use blox_registry::param;
///
/// let short = param("short_h", "8", "hours of running for which a job comes first");
/// assert_eq!((short.name, short.default.to_string()), ("short_h", "8".to_owned()));
/// ```
pub const fn param(name: &'static str, default: &'static str, about: &'static str) -> ParamDoc {
    ParamDoc {
        name,
        default: DefaultValue::Text(default),
        about,
    }
}

/// Describes a parameter whose default is a number, such as a constant of a policy.
///
/// ```
/// use blox_registry::numeric;
///
/// const SHORT_H: f64 = 8.0;
/// let short = numeric("short_h", SHORT_H, "hours of running for which a job comes first");
/// assert_eq!(short.default.to_string(), "8");
/// ```
pub const fn numeric(name: &'static str, default: f64, about: &'static str) -> ParamDoc {
    ParamDoc {
        name,
        default: DefaultValue::Number(default),
        about,
    }
}

/// Returns the data of jobs that parameters name.
type NamedData = fn(&Params) -> Vec<RequiredData>;

type Build<T> = Arc<dyn Fn(&Params, u64) -> Result<T, RegistryError> + Send + Sync>;

/// An entry of a registry.
#[non_exhaustive]
pub struct Registered<T> {
    /// One sentence about the entry.
    pub about: &'static str,
    /// Its parameters.
    pub params: Vec<ParamDoc>,
    /// Simulated world that it is designed for.
    pub world: WorldParts,
    /// Data of jobs that it is about.
    pub job_data: Vec<JobData>,
    /// Data of jobs that it is about with a value of a parameter.
    by_param: Vec<(&'static str, &'static str, JobData)>,
    /// Data of jobs that it reads, as its parameters name them.
    named_data: Option<NamedData>,
    /// Notices about values of parameters.
    notices: Vec<(&'static str, &'static str, &'static str)>,
    /// Data of nodes that it is about.
    pub node_data: Vec<NodeData>,
    build: Build<T>,
}

/// Components of the simulated world that a scheduler is designed for. The command line uses them
/// unless an option names others.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WorldParts {
    /// Execution model.
    pub execution: Option<ComponentSpec>,
    /// Overhead model.
    pub overheads: Option<ComponentSpec>,
}

/// Data of jobs that a scheduler is about. Without the data, the scheduler works, but does not do
/// what it is chosen for. The command line prints a notice if no measured job has the data.
#[derive(Clone, Copy, Debug)]
pub struct JobData {
    /// The data as users know it, such as "`attributes.stages`".
    pub name: &'static str,
    /// Returns whether a job has the data.
    pub has: fn(&Submission) -> bool,
    /// Effect if no job has the data, such as "no jobs share GPUs".
    pub without: &'static str,
    /// Checks that a job's value of the data is within its range. The command line prints a notice
    /// with the first wrong value.
    pub check: fn(&Submission) -> Result<(), SpecError>,
}

/// Data of jobs that a scheduler is about with its parameters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RequiredData {
    /// Described data.
    Data(JobData),
    /// A numeric attribute, by its name.
    Attribute(String),
    /// The estimate of the job's user.
    UserEstimate,
}

/// Data of nodes that a component is about, such as scores of GPUs. The command line prints a notice
/// if no node has the data.
#[derive(Clone, Copy, Debug)]
pub struct NodeData {
    /// The data as users know it.
    pub name: &'static str,
    /// Returns whether a node has the data.
    pub has: fn(&NodeSpec) -> bool,
    /// Effect if no node has the data.
    pub without: &'static str,
}

impl<T> Registered<T> {
    /// Names data of nodes that this component is about. May be called several times.
    pub fn with_node_data(&mut self, data: NodeData) -> &mut Self {
        self.node_data.push(data);
        self
    }

    /// Names data of jobs that this scheduler is about. May be called several times.
    ///
    /// ```
    /// use blox_registry::{JobData, Registry};
    /// # use blox_core::{Composition, order::SortKey, policy::by_key};
    /// # let build = |_: &_, _| Ok(Composition::new("x").scheduling(by_key(|_| SortKey::by(0.0)))
    /// #     .placement(blox_testing::FirstFit).build().unwrap());
    ///
    /// let mut registry = Registry::new();
    /// let added = registry.schedulers.add("by-deadline", "earliest deadline first", &[], build);
    /// added.with_job_data(JobData {
    ///     name: "a deadline",
    ///     has: |job| !job.extras().deadlines.is_empty(),
    ///     without: "jobs run in order of submission",
    ///     check: |_| Ok(()),
    /// });
    /// ```
    pub fn with_job_data(&mut self, data: JobData) -> &mut Self {
        self.job_data.push(data);
        self
    }

    /// Names data of jobs that this scheduler is about if a parameter has a value, such as `speeds` =
    /// `pairs`.
    pub fn with_job_data_if(
        &mut self,
        (param, value): (&'static str, &'static str),
        data: JobData,
    ) -> &mut Self {
        self.by_param.push((param, value, data));
        self
    }

    /// Names data of jobs that depend on the parameters, such as the columns of a formula. The
    /// parameters have their defaults.
    pub fn with_named_job_data(&mut self, named: fn(&Params) -> Vec<RequiredData>) -> &mut Self {
        self.named_data = Some(named);
        self
    }

    /// Adds a notice that the command line prints if a parameter has a value. An example is an empty
    /// name of a file that the component needs.
    pub fn with_notice_if(
        &mut self,
        (param, value): (&'static str, &'static str),
        notice: &'static str,
    ) -> &mut Self {
        self.notices.push((param, value, notice));
        self
    }

    /// Returns the notices about these parameters.
    pub fn notices_with(&self, params: &Params) -> Vec<&'static str> {
        let notices = self.notices.iter();
        notices
            .filter(|(param, value, _)| self.has_value(params, param, value))
            .map(|(.., notice)| *notice)
            .collect()
    }

    /// Returns the data of jobs that this scheduler is about with these parameters.
    pub fn job_data_with(&self, params: &Params) -> Vec<RequiredData> {
        let by_param = self.by_param.iter();
        let of_value = by_param
            .filter(|(param, value, _)| self.has_value(params, param, value))
            .map(|(.., data)| *data);
        let described = self.job_data.iter().copied().chain(of_value);
        let named = self.named_data.map_or_else(Vec::new, |named| {
            named(&Params::with(params.values.clone(), &self.params))
        });
        described.map(RequiredData::Data).chain(named).collect()
    }

    /// Returns whether a parameter has a value, given or by default.
    fn has_value(&self, params: &Params, param: &str, value: &str) -> bool {
        let doc = self.params.iter().find(|doc| doc.name == param);
        let default = doc.map(|doc| doc.default.to_string());
        match (params.text(param), default) {
            ("", Some(default)) => default == value,
            (given, _) => given == value,
        }
    }

    /// Names the execution model that this scheduler is designed for.
    pub fn with_execution(&mut self, name: impl Into<String>) -> &mut Self {
        self.world.execution = Some(ComponentSpec::plain(name));
        self
    }

    /// Names the overheads that this scheduler is designed for.
    pub fn with_overheads(&mut self, name: impl Into<String>) -> &mut Self {
        self.world.overheads = Some(ComponentSpec::plain(name));
        self
    }
}

impl<T> Clone for Registered<T> {
    fn clone(&self) -> Self {
        Registered {
            about: self.about,
            params: self.params.clone(),
            world: self.world.clone(),
            job_data: self.job_data.clone(),
            by_param: self.by_param.clone(),
            named_data: self.named_data,
            notices: self.notices.clone(),
            node_data: self.node_data.clone(),
            build: Arc::clone(&self.build),
        }
    }
}

/// Entries of one kind, by name.
pub struct ComponentRegistry<T> {
    kind: &'static str,
    entries: SortedMap<String, Registered<T>>,
    /// Gives a product its seed, if its `build` does not.
    seeded: fn(T, u64) -> T,
}

impl<T> Clone for ComponentRegistry<T> {
    fn clone(&self) -> Self {
        ComponentRegistry {
            kind: self.kind,
            entries: self.entries.clone(),
            seeded: self.seeded,
        }
    }
}

impl<T> ComponentRegistry<T> {
    /// Creates an empty registry. `kind` names one entry in messages.
    pub fn new(kind: &'static str) -> Self {
        ComponentRegistry {
            kind,
            entries: SortedMap::new(),
            seeded: |product, _| product,
        }
    }

    /// Adds an entry, or replaces the entry with this name. Returns the entry.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        about: &'static str,
        params: &[ParamDoc],
        build: impl Fn(&Params, u64) -> Result<T, RegistryError> + Send + Sync + 'static,
    ) -> &mut Registered<T> {
        self.put(name.into(), about, params, Arc::new(build))
    }

    // Apart, as it is compiled once instead of for each entry.
    fn put(
        &mut self,
        name: String,
        about: &'static str,
        params: &[ParamDoc],
        build: Build<T>,
    ) -> &mut Registered<T> {
        let entry = Registered {
            about,
            params: params.to_vec(),
            world: WorldParts::default(),
            job_data: Vec::new(),
            by_param: Vec::new(),
            named_data: None,
            notices: Vec::new(),
            node_data: Vec::new(),
            build,
        };
        self.entries.remove(&name);
        self.entries.entry(name).or_insert(entry)
    }

    /// Returns the entry with this name.
    pub fn get(&self, name: &str) -> Option<&Registered<T>> {
        self.entries.get(name)
    }

    /// Returns `named` with each parameter that it does not set at the value that `value` returns for
    /// it, if any.
    #[must_use]
    pub fn filled(
        &self,
        named: &ComponentSpec,
        value: impl Fn(&ParamDoc) -> Option<Value>,
    ) -> ComponentSpec {
        let mut filled = named.clone();
        let params = self.get(&named.name).into_iter().flat_map(|e| &e.params);
        for param in params.filter(|p| !named.params.has(p.name)) {
            if let Some(value) = value(param) {
                filled.params.set(param.name, value);
            }
        }
        filled
    }

    /// Returns all names in ascending order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns all entries in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Registered<T>)> {
        self.entries.iter().map(|(n, e)| (n.as_str(), e))
    }

    /// Builds the entry with this name, with parameters and a seed for its random generators.
    ///
    /// # Errors
    /// An unknown name or parameter, listing the known ones, or a bad value.
    pub fn build(&self, named: &ComponentSpec, seed: u64) -> Result<T, RegistryError> {
        let entry = self
            .entries
            .get(&named.name)
            .ok_or_else(|| RegistryError::UnknownName {
                kind: self.kind,
                name: named.name.clone(),
                suggestion: did_you_mean(&named.name, self.names(), "; "),
                known: join(self.names()),
            })?;
        for param in named.params.names() {
            if !entry.params.iter().any(|p| p.name == param) {
                return Err(RegistryError::UnknownParam {
                    kind: self.kind,
                    name: named.name.clone(),
                    param: param.to_owned(),
                    suggestion: did_you_mean(param, entry.params.iter().map(|p| p.name), "; "),
                    known: join(entry.params.iter().map(|p| p.name)),
                });
            }
        }
        let params = Params::with(named.params.values.clone(), &entry.params);
        Ok((self.seeded)((entry.build)(&params, seed)?, seed))
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    }
}

/// All policies, schedulers and collectors that a command line or configuration can name.
#[derive(Clone)]
#[non_exhaustive]
pub struct Registry {
    /// Complete schedulers.
    pub schedulers: ComponentRegistry<Pipeline>,
    /// Admission policies.
    pub admission: ComponentRegistry<Arc<dyn AnyAdmission>>,
    /// Cluster managers.
    pub cluster: ComponentRegistry<Arc<dyn AnyClusterManager>>,
    /// Scheduling policies.
    pub scheduling: ComponentRegistry<Arc<dyn AnyScheduling>>,
    /// Placement policies.
    pub placement: ComponentRegistry<Arc<dyn AnyPlacement>>,
    /// Collectors of metrics.
    pub collectors: ComponentRegistry<Box<dyn MetricCollector>>,
    others: SortedMap<TypeId, Box<dyn AnyComponents>>,
}

/// A registry of components that another crate defines.
trait AnyComponents: Any + DynClone + Send + Sync {}

dyn_clone::clone_trait_object!(AnyComponents);

impl<T: 'static> AnyComponents for ComponentRegistry<T> {}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            schedulers: ComponentRegistry {
                seeded: Pipeline::with_seed,
                ..ComponentRegistry::new("scheduler")
            },
            admission: ComponentRegistry::new("admission policy"),
            cluster: ComponentRegistry::new("cluster manager"),
            scheduling: ComponentRegistry::new("scheduling policy"),
            placement: ComponentRegistry::new("placement policy"),
            collectors: ComponentRegistry::new("collector"),
            others: SortedMap::new(),
        }
    }
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Returns the components of a type that another crate defines; `None` if there are none.
    ///
    /// The simulator keeps its execution models, overheads, completion rules and workloads here
    /// (`blox_sim::registry`).
    pub fn others<T: 'static>(&self) -> Option<&ComponentRegistry<T>> {
        let components: &dyn Any = &**self.others.get(&TypeId::of::<T>())?;
        components.downcast_ref()
    }

    /// Returns the components of a type that another crate defines, for modification. `kind` names
    /// one of them in messages.
    pub fn others_mut<T: 'static>(&mut self, kind: &'static str) -> &mut ComponentRegistry<T> {
        let empty = || Box::new(ComponentRegistry::<T>::new(kind)) as Box<dyn AnyComponents>;
        let place = self.others.entry(TypeId::of::<T>()).or_insert_with(empty);
        let components: &mut dyn Any = &mut **place;
        components
            .downcast_mut()
            .expect("a registry is stored under the type of its parts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_the_known_ones() {
        let mut components: ComponentRegistry<u32> = ComponentRegistry::new("thing");
        components.add("one", "", &[param("by", "1", "")], |p, _| {
            Ok(p.u64("by")? as u32)
        });
        let build = |text: &str| components.build(&text.parse().unwrap(), 0);
        assert_eq!(build("one{by=3}").unwrap(), 3);
        assert_eq!(build("one").unwrap(), 1);
        let text = |r: Result<u32, RegistryError>| r.unwrap_err().to_string();
        assert_eq!(text(build("two")), "unknown thing `two`; known: one");
        for slip in ["oen", "on", "ones", "One"] {
            assert_eq!(
                text(build(slip)),
                format!("unknown thing `{slip}`, did you mean `one`? known: one")
            );
        }
        assert_eq!(
            text(build("one{bye=3}")),
            "thing `one` has no parameter `bye`, did you mean `by`? it has: by"
        );
        assert_eq!(
            text(build("one{by=-3}")),
            "parameter `by` is `-3`, expected a whole number from 0"
        );
    }

    #[test]
    fn parts_of_other_crates_have_their_own_registry() {
        let mut registry = Registry::new();
        assert!(registry.others::<u32>().is_none());
        let components = registry.others_mut::<u32>("number");
        components.add("one", "", &[], |_, _| Ok(1));
        let copy = registry.clone();
        let named = ComponentSpec::plain("one");
        let built = copy.others::<u32>().map(|s| s.build(&named, 0));
        assert_eq!(built, Some(Ok(1)));
        assert!(copy.others::<u64>().is_none());
    }

    #[test]
    fn parameters_without_a_value_can_be_filled() {
        let mut components: ComponentRegistry<u32> = ComponentRegistry::new("thing");
        let load = without_default("load", "");
        components
            .add("fast", "", &[load], |p, _| Ok(p.u64("load")? as u32))
            .with_execution("model");
        let of = |text: &str, option: Option<u32>| {
            let filled = components.filled(&text.parse().unwrap(), |param| {
                assert!(param.name == "load" && param.default.is_none());
                option.map(Value::from)
            });
            filled.to_string()
        };
        assert_eq!(of("fast", Some(4)), "fast{load=4}");
        assert_eq!(of("fast{load=7}", Some(4)), "fast{load=7}");
        assert_eq!(of("fast", None), "fast");
        let built = components.build(&ComponentSpec::plain("fast"), 0);
        let text = built.unwrap_err().to_string();
        assert_eq!(
            text,
            "parameter `load` is `none`, expected a whole number from 0"
        );
        let world = components.get("fast").map(|e| &e.world);
        let execution = world.and_then(|w| w.execution.as_ref());
        assert_eq!(execution, Some(&ComponentSpec::plain("model")));
    }

    #[test]
    fn quotes_keep_separators_of_a_value() {
        let named: ComponentSpec = "a{by=where(user == 'x, y=1', 0, 1),z=2}".parse().unwrap();
        assert_eq!(named.params.text("by"), "where(user == 'x, y=1', 0, 1)");
        assert_eq!(named.params.text("z"), "2");
        let lines: ComponentSpec = "a{by=age,\n  submit}".parse().unwrap();
        assert_eq!(lines.to_string(), "a{by=age,   submit}");
        assert!(!lines.to_string().contains('\n'));
    }

    #[test]
    fn commas_without_a_value_are_refused() {
        for text in ["a{x=1,}", "a{,x=1}", "a{x=1,,2}", "a{,}"] {
            let error = text.parse::<ComponentSpec>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not understood")));
        }
        assert_eq!("a{ }".parse(), Ok(ComponentSpec::plain("a")));
        let empty: ComponentSpec = "a{x=}".parse().unwrap();
        let error = empty.params.f64("x").unwrap_err().to_string();
        assert_eq!(error, "parameter `x` is ``, expected a number");
    }

    #[test]
    fn control_characters_are_refused_and_escaped() {
        for text in ["a\u{1b}[31m", "a{x=\u{1b}[31m}", r#"a{x="\u001b[31m"}"#] {
            let error = text.parse::<ComponentSpec>().unwrap_err().to_string();
            assert!(error.contains("not understood"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn a_text_is_what_is_written() {
        let named: ComponentSpec = "a{x=3, y=1e3,z=\"null\",w=true,v=a b}".parse().unwrap();
        let read = |name| named.params.text(name);
        let words = ["v", "w", "x", "y", "z", "u"].map(read);
        assert_eq!(words, ["a b", "true", "3", "1e3", "null", ""]);
        assert_eq!(named.to_string(), "a{v=a b,w=true,x=3,y=1e3,z=null}");
        assert_eq!(named.params.f64("y"), Ok(1000.0));
        assert_eq!(named.params.choice("x", &["2", "3"]), Ok("3"));
        assert!(named.params.u64("w").is_err());
    }

    #[test]
    fn component_spec_value_with_commas_is_one_text() {
        let text = "a{mix=1:70,2:30,x=[1,2],y=3}";
        let named: ComponentSpec = text.parse().unwrap();
        assert_eq!(named.params.text("mix"), "1:70,2:30");
        assert_eq!(named.params.text("x"), "[1,2]");
        assert_eq!(named.params.u64("y"), Ok(3));
        assert_eq!(named.to_string(), text);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "a{", "a}", "a{b}", "a b", "{x=1}", "a{=1}"] {
            assert!(text.parse::<ComponentSpec>().is_err(), "{text:?}");
        }
        assert_eq!(
            "a{b=1,c=2,b=x}"
                .parse::<ComponentSpec>()
                .unwrap_err()
                .to_string(),
            "parameter `b` is `1, x`, expected one value"
        );
    }
}
