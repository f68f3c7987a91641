//! The extractor [`Path`] of the parameters of a path: a deserializer of serde over the raw
//! parameters of a request.
//!
//! A parameter is text. Other types are parsed from it, and failing to parse is the client's error
//! (404); a type with another number of values, or another name, is an error of the program (500).

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::from_request::{FromRequest, refused};
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;

/// The parameters of the route's pattern, decoded, as an argument: one value, a tuple in the
/// pattern's order, or a struct with a field for each.
///
/// A path whose values do not have the types of `T` is answered 404: no such resource exists. A `T`
/// with other parameters than the pattern is an error of the program: it is logged and answered
/// 500.
///
/// ```
/// use marmota_http::extract::Path;
/// use marmota_http::{Router, Status, TestRequest};
///
/// async fn comment(Path((task, comment)): Path<(i64, u32)>) -> String {
///     format!("comment {comment} of task {task}")
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Version {
///     file: String,
///     number: Option<u8>,
/// }
///
/// async fn version(Path(version): Path<Version>) -> String {
///     format!("{} {:?}", version.file, version.number)
/// }
///
/// let router = Router::with_state(())
///     .get("/tasks/{id:int}/comments/{number}", comment)
///     .get("/files/{file}/{number}", version)
///     .router();
/// assert_eq!(router.call(TestRequest::get("/tasks/7/comments/2"))?.text(), "comment 2 of task 7");
/// assert_eq!(router.call(TestRequest::get("/files/a%20b/3"))?.text(), "a b Some(3)");
/// let refused = router.call(TestRequest::get("/tasks/7/comments/x"))?;
/// assert_eq!(refused.status(), Status::NOT_FOUND);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned, S> FromRequest<S> for Path<T> {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        let names = request.param_names();
        let values = (0..names.len()).filter_map(|index| request.param_at(index));
        let parameters = Parameters { names, values: values.map(Parameter).collect() };
        T::deserialize(parameters).map(Self).map_err(|error| match error {
            PathError::Value(reason) => refused(Status::NOT_FOUND, "the path", "", &reason),
            PathError::Handler(reason) => {
                log::error!("the handler of {} does not match its route: {reason}", request.path());
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            }
        })
    }
}

/// The reason why parameters cannot be deserialized.
#[derive(Debug)]
enum PathError {
    /// A parameter has no value of the type.
    Value(String),
    /// The handler takes other parameters than the pattern has.
    Handler(String),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Value(reason) | Self::Handler(reason)) = self;
        f.write_str(reason)
    }
}

impl std::error::Error for PathError {}

impl serde::de::Error for PathError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Handler(format!("the pattern has no parameter `{field}`"))
    }
}

/// All parameters of a path.
struct Parameters<'de> {
    /// The names, by the pattern.
    names: &'de [String],
    /// The values that the names have in this request.
    values: Vec<Parameter<'de>>,
}

impl<'de> Parameters<'de> {
    /// Returns the only parameter, for a type that takes one.
    fn one(mut self) -> Result<Parameter<'de>, PathError> {
        self.check_count(1)?;
        self.values.pop().ok_or_else(|| PathError::Handler("no parameter".to_owned()))
    }

    /// Checks that the handler takes as many parameters as the pattern has.
    fn check_count(&self, count: usize) -> Result<(), PathError> {
        match self.values.len() {
            found if found == count => Ok(()),
            found => Err(PathError::Handler(format!(
                "the pattern has {found} parameters, but the handler takes {count}"
            ))),
        }
    }
}

/// Forwards the types that take one parameter.
macro_rules! one {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
            self.one()?.$method(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Parameters<'de> {
    type Error = PathError;

    one! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_identifier
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        self.check_count(0)?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_seq(SeqDeserializer::new(self.values.into_iter()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.check_count(count)?;
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.deserialize_tuple(count, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        let names = self.names.iter().map(String::as_str);
        visitor.visit_map(MapDeserializer::new(names.zip(self.values)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.one()?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_unit()
    }
}

/// One parameter: text, from which other types are parsed. It is borrowed from the request unless
/// it had escapes.
struct Parameter<'de>(Cow<'de, str>);

impl<'de> IntoDeserializer<'de, PathError> for Parameter<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Parses values of other types than text.
macro_rules! parsed {
    ($($method:ident $visit:ident $kind:literal)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(PathError::Value(format!("{:?} is not {}", self.0, $kind))),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Parameter<'de> {
    type Error = PathError;

    parsed! {
        deserialize_bool visit_bool "`true` or `false`"
        deserialize_i8 visit_i8 "an integer of 8 bits"
        deserialize_i16 visit_i16 "an integer of 16 bits"
        deserialize_i32 visit_i32 "an integer of 32 bits"
        deserialize_i64 visit_i64 "an integer of 64 bits"
        deserialize_i128 visit_i128 "an integer of 128 bits"
        deserialize_u8 visit_u8 "an unsigned integer of 8 bits"
        deserialize_u16 visit_u16 "an unsigned integer of 16 bits"
        deserialize_u32 visit_u32 "an unsigned integer of 32 bits"
        deserialize_u64 visit_u64 "an unsigned integer of 64 bits"
        deserialize_u128 visit_u128 "an unsigned integer of 128 bits"
        deserialize_f32 visit_f32 "a number"
        deserialize_f64 visit_f64 "a number"
        deserialize_char visit_char "one character"
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PathError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}
