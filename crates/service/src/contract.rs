//! Contracts: the parts of a service that both sides must agree on.

use std::collections::BTreeMap;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::transfer::TransferForm;

/// A service's name and methods, as written in its trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contract {
    /// The name, as in URLs.
    pub name: &'static str,
    /// The methods.
    pub methods: &'static [MethodContract],
}

/// A type with a contract.
pub trait Described {
    /// The contract.
    const CONTRACT: &'static Contract;
}

/// A method of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MethodContract {
    /// The name.
    pub name: &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
    /// The type of the result, as written.
    pub result: &'static str,
    /// How the result is transferred.
    #[serde(skip_serializing_if = "TransferForm::is_value")]
    pub result_form: TransferForm,
}

/// A parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The type, as written.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// How the parameter is transferred.
    #[serde(skip_serializing_if = "TransferForm::is_value")]
    pub form: TransferForm,
}

impl std::fmt::Display for MethodContract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.name)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", parameter.name, parameter.type_name)?;
            mark_stream(f, parameter.form, parameter.type_name)?;
        }
        write!(f, ") -> {}", self.result)?;
        mark_stream(f, self.result_form, self.result)
    }
}

/// Marks a type as a stream if its name does not show it.
fn mark_stream(
    f: &mut std::fmt::Formatter<'_>,
    form: TransferForm,
    type_name: &str,
) -> std::fmt::Result {
    match form {
        TransferForm::Bytes if !type_name.ends_with("ByteStream") => {
            f.write_str(" (a stream of bytes)")
        }
        TransferForm::Items if !type_name.contains("ItemStream<") => {
            f.write_str(" (a stream of items)")
        }
        _ => Ok(()),
    }
}

impl MethodContract {
    /// Returns a hash of the name, the parameters and the result. Types are compared by their names
    /// as written and by whether they are streams; the fields of a struct do not count.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut text = self.to_string();
        if self.has_streams() {
            // A type may have the name of a stream type without being one.
            for form in self.parameters.iter().map(|one| one.form).chain([self.result_form]) {
                text.push(' ');
                text.push_str(form.name());
            }
        }
        fnv(text.as_bytes())
    }

    /// Returns true if a parameter or the result is a stream.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        !self.result_form.is_value() || self.parameters.iter().any(|one| !one.form.is_value())
    }
}

/// The most methods of a service, and the most parameters of a method, that are known at run time.
const NAMES_MAX: usize = 256;
/// The longest name, as for services in Rust.
const NAME_BYTES_MAX: usize = 63;

/// The contracts that were known at run time, by their JSON.
static KNOWN: Mutex<BTreeMap<String, &'static Contract>> = Mutex::new(BTreeMap::new());

/// A contract as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContractJson {
    name: String,
    methods: Vec<MethodJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodJson {
    name: String,
    #[serde(default)]
    parameters: Vec<ParameterJson>,
    #[serde(default = "no_result")]
    result: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterJson {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
}

fn no_result() -> String {
    "()".to_owned()
}

impl Contract {
    /// Returns a contract that is known at run time, for [`crate::Hosted::json`], from JSON of the
    /// form that `GET /api/{service}` answers with. Types are written as in Rust (`i64`, `String`,
    /// `Option<bool>`, `Vec<f64>`); a client in Rust compares them with those of its trait.
    /// `parameters` is empty and `result` is `()` if they are missing. Streams are not possible.
    ///
    /// The contract stays in memory until the program ends; equal ones are kept once.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the text is not such JSON, a name is not made of ASCII letters,
    /// digits and `_`, or is used twice; the message names it.
    pub fn from_json(json: &str) -> Result<&'static Self> {
        let read: ContractJson = serde_json::from_str(json)
            .map_err(|error| invalid(format!("the contract is not valid: {error}")))?;
        check_names("service", std::iter::once(&read.name))?;
        check_names("method", read.methods.iter().map(|method| &method.name))?;
        for method in &read.methods {
            check_names("parameter", method.parameters.iter().map(|one| &one.name))?;
        }
        // Strings: serializing cannot fail.
        let text = serde_json::to_string(&read).unwrap_or_default();
        Ok(KNOWN.lock().entry(text).or_insert_with(|| read.leak()))
    }

    /// Returns a hash of all methods and their order.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let all: Vec<u8> =
            self.methods.iter().flat_map(|method| method.hash().to_le_bytes()).collect();
        fnv(&all)
    }

    /// Returns the index of the method with this name.
    pub(crate) fn find(&self, method: &str) -> Option<usize> {
        self.methods.iter().position(|one| one.name == method)
    }
}

impl ContractJson {
    fn leak(self) -> &'static Contract {
        let methods: Vec<_> = self.methods.into_iter().map(MethodJson::leak).collect();
        Box::leak(Box::new(Contract { name: self.name.leak(), methods: methods.leak() }))
    }
}

impl MethodJson {
    fn leak(self) -> MethodContract {
        let parameters: Vec<_> = self.parameters.into_iter().map(ParameterJson::leak).collect();
        MethodContract {
            name: self.name.leak(),
            parameters: parameters.leak(),
            result: self.result.leak(),
            result_form: TransferForm::Value,
        }
    }
}

impl ParameterJson {
    fn leak(self) -> Parameter {
        Parameter {
            name: self.name.leak(),
            type_name: self.type_name.leak(),
            form: TransferForm::Value,
        }
    }
}

/// Checks the names of a service, its methods or the parameters of a method.
fn check_names<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        let is_valid = name.len() <= NAME_BYTES_MAX
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_valid {
            return Err(invalid(format!(
                "the name of the {what} `{}` is not valid: use up to 63 ASCII letters, digits \
                 and `_`",
                excerpt(name)
            )));
        }
        if found.contains(&name.as_str()) {
            return Err(invalid(format!("there are two {what}s `{name}`: rename one of them")));
        }
        if found.len() == NAMES_MAX {
            return Err(invalid(format!("there are more than {NAMES_MAX} {what}s")));
        }
        found.push(name);
    }
    Ok(())
}

#[cold]
fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// FNV-1a: the same in every build and on every machine.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Parameter = Parameter { name: "a", type_name: "i32", form: TransferForm::Value };

    #[test]
    fn a_method_reads_as_it_was_written_and_differs_where_it_does() {
        let (parameters, result_form) = (&[A, A][..], TransferForm::Value);
        let add = MethodContract { name: "add", parameters, result: "i32", result_form };
        assert_eq!(add.to_string(), "add(a: i32, a: i32) -> i32");
        let fewer = MethodContract { parameters: &[A], ..add };
        let other = MethodContract { result: "i64", ..add };
        assert_ne!(add.hash(), fewer.hash());
        assert_ne!(add.hash(), other.hash());
        let alias = MethodContract { result_form: TransferForm::Items, ..add };
        assert_eq!(alias.to_string(), "add(a: i32, a: i32) -> i32 (a stream of items)");
        let bytes = MethodContract { result_form: TransferForm::Bytes, ..add };
        assert_ne!(add.hash(), alias.hash());
        assert_ne!(alias.hash(), bytes.hash());
        let streamed = MethodContract {
            parameters: &[A, Parameter { form: TransferForm::Items, ..A }],
            ..add
        };
        assert_ne!(add.hash(), streamed.hash());
        assert_ne!(alias.hash(), streamed.hash());
        let of = |methods| Contract { name: "c", methods };
        assert_ne!(of(&[]).hash(), of(&[A_METHOD]).hash());
    }

    const A_METHOD: MethodContract = MethodContract {
        name: "a",
        parameters: &[],
        result: "()",
        result_form: TransferForm::Value,
    };
}
