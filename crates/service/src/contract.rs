//! What both sides of a service have to mean the same by.

use serde::Serialize;

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
}

/// A parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type, as written.
    #[serde(rename = "type")]
    pub type_name: &'static str,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.name)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", parameter.name, parameter.type_name)?;
        }
        write!(f, ") -> {}", self.result)
    }
}

impl Method {
    /// A number that differs where the name, a parameter or the result does.
    /// Types are compared by their names as written: what is inside of a struct
    /// is not seen.
    #[must_use]
    pub fn hash(&self) -> u64 {
        fnv(self.to_string().as_bytes())
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

    const A: Parameter = Parameter { name: "a", type_name: "i32" };

    #[test]
    fn a_method_reads_as_it_was_written_and_differs_where_it_does() {
        let add = Method { name: "add", parameters: &[A, A], result: "i32" };
        assert_eq!(add.to_string(), "add(a: i32, a: i32) -> i32");
        let fewer = Method { parameters: &[A], ..add };
        let other = Method { result: "i64", ..add };
        assert_ne!(add.hash(), fewer.hash());
        assert_ne!(add.hash(), other.hash());
        let of = |methods| Contract { name: "c", methods };
        assert_ne!(of(&[]).hash(), of(&[A_METHOD]).hash());
    }

    const A_METHOD: Method = Method { name: "a", parameters: &[], result: "()" };
}
