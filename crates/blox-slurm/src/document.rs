//! JSON documents of Slurm with one long list, read element by element.

use crate::error::SlurmError;
use crate::read::{number, reported};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Reads the list of a document, such as `jobs`, so that memory holds one element at a time.
/// Returns the time of the document in seconds of Unix time, if it states one.
///
/// # Errors
/// The text is not Slurm's, has an error of Slurm, or `take` refuses an element.
pub(crate) fn each(
    program: &'static str,
    text: &[u8],
    key: &'static str,
    mut take: impl FnMut(Value) -> Result<(), SlurmError>,
) -> Result<Option<u64>, SlurmError> {
    let mut refused = None;
    let document = Document {
        key,
        take: &mut |value| take(value).map_err(|error| refused = Some(error)),
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = document.deserialize(&mut reader);
    let read = read.and_then(|found| reader.end().map(|()| found));
    if let Some(error) = refused {
        return Err(error);
    }
    let output = |found: String, expected| SlurmError::Output {
        program,
        found,
        expected,
    };
    let json = "JSON, as Slurm 21.08 and later write it";
    let found = read.map_err(|error| output(error.to_string(), json))?;
    if let Some(message) = reported(&found.rest) {
        return Err(SlurmError::Failed { program, message });
    }
    match found.listed {
        true => Ok(number(&found.rest, "last_update")),
        false => Err(output(
            format!("no list `{key}`"),
            match key {
                "jobs" => "a list of jobs",
                _ => "a list of nodes",
            },
        )),
    }
}

/// A function that receives an element.
type Take<'a> = &'a mut dyn FnMut(Value) -> Result<(), ()>;

struct Document<'a> {
    key: &'static str,
    take: Take<'a>,
}

/// The fields of a document beside its list.
struct Found {
    listed: bool,
    rest: Value,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Found, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the list `{}`", self.key)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Found, M::Error> {
        let (mut listed, mut rest) = (false, serde_json::Map::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                key if key == self.key => {
                    map.next_value_seed(List(&mut *self.take))?;
                    listed = true;
                }
                "errors" | "last_update" => {
                    rest.insert(key, map.next_value()?);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let rest = Value::Object(rest);
        Ok(Found { listed, rest })
    }
}

struct List<'a>(Take<'a>);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            (self.0)(value).map_err(|()| S::Error::custom("refused"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<String>, Option<u64>), String> {
        let mut all = Vec::new();
        let take = |value: Value| match value.is_null() {
            true => Err(SlurmError::Failed {
                program: "squeue",
                message: "null".to_owned(),
            }),
            false => {
                all.push(value.to_string());
                Ok(())
            }
        };
        let at = each("squeue", text.as_bytes(), "jobs", take).map_err(|e| e.to_string())?;
        Ok((all, at))
    }

    #[test]
    fn elements_of_a_list_are_taken_in_order() {
        let text = r#"{"meta": {"jobs": [7]}, "jobs": [1, {"a": 2}], "errors": [],
            "last_update": {"set": true, "infinite": false, "number": 9}}"#;
        let list = vec!["1".to_owned(), r#"{"a":2}"#.to_owned()];
        assert_eq!(read(text), Ok((list, Some(9))));
    }

    #[test]
    fn other_documents_are_errors() {
        for (text, part) in [
            (r#"{"nodes": []}"#, "found no list `jobs`"),
            (r#"{"jobs": 3}"#, "expected a list at line 1"),
            (r#"{"jobs": [1"#, "EOF while parsing"),
            (r#"{"jobs": []} x"#, "trailing characters"),
            (r#"{"jobs": [null]}"#, "squeue: null"),
            ("JOBID PARTITION", "expected value at line 1"),
            (r#"{"jobs": [], "errors": [{"error": "no"}]}"#, "squeue: no"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
