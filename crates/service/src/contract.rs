//! What both sides of a service have to mean the same by.

use serde::Serialize;

use crate::form::Form;

/// A service's name and methods, as written in its trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contract {
    /// Its name, as in URLs.
    pub name: &'static str,
    /// Its methods.
    pub methods: &'static [Method],
}

/// A method of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, in order.
    pub parameters: &'static [Parameter],
    /// The type of its result, as written.
    pub result: &'static str,
    /// How its result passes.
    #[serde(skip_serializing_if = "Form::is_value")]
    pub result_form: Form,
}

/// A parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type, as written.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// How it passes.
    #[serde(skip_serializing_if = "Form::is_value")]
    pub form: Form,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.name)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", parameter.name, parameter.type_name)?;
            tell_form(f, parameter.form, parameter.type_name)?;
        }
        write!(f, ") -> {}", self.result)?;
        tell_form(f, self.result_form, self.result)
    }
}

/// Says that a type is a stream, where its name does not.
fn tell_form(f: &mut std::fmt::Formatter<'_>, form: Form, type_name: &str) -> std::fmt::Result {
    match form {
        Form::Bytes if !type_name.ends_with("ByteStream") => f.write_str(" (a stream of bytes)"),
        Form::Items if !type_name.contains("ItemStream<") => f.write_str(" (a stream of items)"),
        _ => Ok(()),
    }
}

impl Method {
    /// A number that differs where the name, a parameter or the result does.
    /// Types are compared by their names as written: what is inside of a struct
    /// is not seen, but whether it is a stream.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut text = self.to_string();
        if self.has_streams() {
            // A type may only be called as a stream is.
            for form in self.parameters.iter().map(|one| one.form).chain([self.result_form]) {
                text.push(' ');
                text.push_str(form.name());
            }
        }
        fnv(text.as_bytes())
    }

    /// True if a parameter or the result is a stream.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        !self.result_form.is_value() || self.parameters.iter().any(|one| !one.form.is_value())
    }
}

impl Contract {
    /// A number that differs where any method does, or their order.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let all: Vec<u8> =
            self.methods.iter().flat_map(|method| method.hash().to_le_bytes()).collect();
        fnv(&all)
    }

    /// The number of the method with this name.
    pub(crate) fn find(&self, method: &str) -> Option<usize> {
        self.methods.iter().position(|one| one.name == method)
    }
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

    const A: Parameter = Parameter { name: "a", type_name: "i32", form: Form::Value };

    #[test]
    fn a_method_reads_as_it_was_written_and_differs_where_it_does() {
        let (parameters, result_form) = (&[A, A][..], Form::Value);
        let add = Method { name: "add", parameters, result: "i32", result_form };
        assert_eq!(add.to_string(), "add(a: i32, a: i32) -> i32");
        let fewer = Method { parameters: &[A], ..add };
        let other = Method { result: "i64", ..add };
        assert_ne!(add.hash(), fewer.hash());
        assert_ne!(add.hash(), other.hash());
        let alias = Method { result_form: Form::Items, ..add };
        assert_eq!(alias.to_string(), "add(a: i32, a: i32) -> i32 (a stream of items)");
        let bytes = Method { result_form: Form::Bytes, ..add };
        assert_ne!(add.hash(), alias.hash());
        assert_ne!(alias.hash(), bytes.hash());
        let streamed = Method { parameters: &[A, Parameter { form: Form::Items, ..A }], ..add };
        assert_ne!(add.hash(), streamed.hash());
        assert_ne!(alias.hash(), streamed.hash());
        let of = |methods| Contract { name: "c", methods };
        assert_ne!(of(&[]).hash(), of(&[A_METHOD]).hash());
    }

    const A_METHOD: Method =
        Method { name: "a", parameters: &[], result: "()", result_form: Form::Value };
}
