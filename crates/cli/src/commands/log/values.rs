//! Values of a log as people type them, as text and as JSON.

use clap::ValueEnum;
use serde_json::value::RawValue;
use talaria::cert::hex::{self, Lower};
use talaria_log::{Content, Float, Log, MergeRule, ObjectId, Unreadable, Value};

use crate::error::CliError;
use crate::render::printable;

/// The type of a typed value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Type {
    /// Text
    String,
    /// A whole number
    Integer,
    /// A floating-point number
    Float,
    /// true or false
    Boolean,
    /// Bytes, in hexadecimal digits
    Bytes,
    /// Another object, by name or identity
    Object,
}

/// The value that a text stands for. Without a type it is a text, and a number for a counter.
pub(super) fn typed(
    text: &str,
    kind: Option<Type>,
    field: &str,
    log: &Log,
) -> Result<Value, CliError> {
    let is_counter = log.genesis().rule(field) == MergeRule::Counter;
    let kind = kind.unwrap_or(if is_counter { Type::Integer } else { Type::String });
    let wrong = |what: &str| CliError::Usage(format!("{text:?}, the value of {field}, is {what}"));
    Ok(match kind {
        Type::String => Value::String(text.to_owned()),
        Type::Integer => Value::Integer(text.parse().map_err(|_| wrong("no integer of 64 bits"))?),
        Type::Float => {
            Value::Float(Float::new(text.parse().map_err(|_| wrong("no floating-point number"))?))
        }
        Type::Boolean => match text {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => return Err(wrong("neither true nor false")),
        },
        Type::Bytes => {
            Value::Bytes(hex::bytes(text).ok_or_else(|| wrong("no pairs of hexadecimal digits"))?)
        }
        Type::Object => Value::Object(log.find_object(text)?),
    })
}

/// The value of a JSON text; the reason if it has none.
pub(super) fn from_json(json: &RawValue) -> Result<Value, String> {
    use serde_json::Value as Json;
    let text = json.get();
    let json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(match &json {
        Json::String(text) => Value::String(text.clone()),
        Json::Bool(value) => Value::Boolean(*value),
        // A whole number that is too large for an integer would lose digits as a float.
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, Some(float)) if text.contains(['.', 'e', 'E']) => {
                Value::Float(Float::new(float))
            }
            _ => return Err(format!("{text} is no integer of 64 bits")),
        },
        Json::Object(map) if map.len() == 1 => {
            let (kind, text) = map.iter().next().expect("there is one");
            let text = text.as_str();
            match (kind.as_str(), text) {
                ("bytes", Some(text)) => hex::bytes(text).map(Value::Bytes),
                ("object", Some(text)) => text.parse::<ObjectId>().ok().map(Value::Object),
                ("float", Some(text)) => text.parse().ok().map(|f| Value::Float(Float::new(f))),
                _ => None,
            }
            .ok_or_else(|| format!("{json} is no value"))?
        }
        _ => return Err(format!("{json} is no value")),
    })
}

/// A value as JSON, as [`from_json`] reads it.
pub(super) fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) if number.get().is_finite() => number.get().into(),
        Value::Float(number) => serde_json::json!({ "float": number.get().to_string() }),
        Value::Boolean(value) => (*value).into(),
        Value::Bytes(bytes) => serde_json::json!({ "bytes": Lower(bytes).to_string() }),
        Value::Object(object) => serde_json::json!({ "object": object.to_string() }),
        Value::Committed(commitment) => {
            serde_json::json!({ "commitment": Lower(&commitment.hash).to_string() })
        }
        Value::Encrypted(encrypted) => {
            let readers = match &encrypted.why {
                Some(Unreadable::NoKey { readers }) => Some(readers),
                _ => None,
            };
            serde_json::json!({ "encrypted": {
                "epoch": encrypted.epoch.to_string(), "readers": readers,
                "reason": encrypted.why.as_ref().map(Unreadable::kind),
            } })
        }
    }
}

/// A value as text for people.
pub(super) fn to_text(value: &Value) -> String {
    printable(value.to_string().as_bytes())
}

/// The values of a field: one for most rules, the conflicting ones of a strict field, the elements
/// of a set or a list. A write that has removed a strict value is none.
pub(super) fn values(content: &Content) -> Vec<Value> {
    match content {
        Content::LastWriter(value) => vec![value.clone()],
        Content::Strict(writes) => writes.values().flatten().cloned().collect(),
        Content::Set(elements) => elements.keys().cloned().collect(),
        // A sum beyond 64 bits has no typed value; it is shown as text.
        Content::Counter(sum) => vec![
            i64::try_from(*sum).map_or_else(|_| Value::String(sum.to_string()), Value::Integer),
        ],
        Content::List(elements) => elements.iter().map(|(_, value)| value.clone()).collect(),
    }
}

/// Whether a strict field has values that nobody has reconciled.
pub(super) fn is_conflict(content: &Content) -> bool {
    matches!(content, Content::Strict(writes) if writes.len() > 1)
}
