//! The OpenAPI 3.1 document, generated from the table of routes and the schemas of the JSON types.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::problem::{ProblemDocument, ProblemKind};
use crate::rest::{Answer, Param, Route, Used, table, used};

/// Problems that every route may return.
const EVERYWHERE: [ProblemKind; 6] = [
    ProblemKind::BadRequest,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::Busy,
    ProblemKind::Internal,
    ProblemKind::Unavailable,
];
/// Problems that every route with a body may return.
const WITH_BODY: [ProblemKind; 3] = [
    ProblemKind::Timeout,
    ProblemKind::TooLarge,
    ProblemKind::MediaType,
];

/// Serves the document at `/openapi.json`.
pub(crate) fn router() -> Router<Api> {
    let text: &'static str = Box::leak(text().into_boxed_str());
    let head = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Router::new().route(
        "/openapi.json",
        get(move || async move { (head, text).into_response() }),
    )
}

/// Returns the document as served and as kept in `docs/openapi.json`.
pub fn text() -> String {
    let document = document();
    serde_json::to_string_pretty(&document).expect("a document of plain values") + "\n"
}

fn document() -> Value {
    let mut schemas = BTreeMap::new();
    add_schema(&mut schemas, used::<ProblemDocument<'static>>());
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in table() {
        let operation = operation(&route, &mut schemas);
        paths
            .entry(route.path)
            .or_default()
            .insert(route.method.into(), operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nagaya jobs",
            "version": "1",
            "description": "Long work, done at least once, by anybody's workers. Errors are problem documents \
                (RFC 9457) whose `type` ends in the problem's name.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, schemas: &mut BTreeMap<String, Value>) -> Value {
    let mut parameters = path_parameters(route.path);
    parameters.extend(route.query.iter().map(query_parameter));
    if matches!(route.answer, Answer::Events) {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event that was seen; set by browsers.",
            "schema": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"},
        }));
    }
    if route.path == "/v1/jobs/{id}/events" {
        parameters.push(json!({
            "name": "nagaya-lease", "in": "header", "required": false,
            "description": "The token of an attempt of this job: then the scope `work` is enough.",
            "schema": {"type": "string"},
        }));
    }
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route, schemas),
        // The token is optional on a server that requires none.
        "security": [{"token": []}, {}],
        "x-scope": route.permission.name(),
    });
    if let Some(body) = &route.body {
        let schema = add_schema(schemas, body.schema);
        operation["requestBody"] = json!({
            "required": body.required,
            "content": {"application/json": {"schema": schema}},
        });
    }
    operation
}

fn responses(route: &Route, schemas: &mut BTreeMap<String, Value>) -> Value {
    let mut responses = Map::new();
    let (status, response) = match &route.answer {
        Answer::Document(status, schema) => {
            let schema = add_schema(schemas, *schema);
            let content = json!({"application/json": {"schema": schema}});
            (*status, json!({"description": route.summary, "content": content}))
        }
        Answer::Nothing => (204, json!({"description": route.summary})),
        Answer::Events => {
            let content = json!({"text/event-stream": {"schema": {"type": "string"}}});
            (200, json!({"description": route.summary, "content": content}))
        }
        Answer::Switch => (101, json!({"description": route.summary})),
    };
    responses.insert(status.to_string(), response);
    let with_body = route.body.iter().flat_map(|_| &WITH_BODY);
    // Calls with an optional body still parse one that is sent.
    let takes_any = matches!(route.method, "post" | "put");
    let with_any = takes_any.then_some(&WITH_BODY).into_iter().flatten();
    let kinds = EVERYWHERE
        .iter()
        .chain(route.problems)
        .chain(with_body)
        .chain(with_any);
    let mut by_status: BTreeMap<u16, Vec<ProblemKind>> = BTreeMap::new();
    for kind in kinds {
        let there = by_status.entry(kind.status().as_u16()).or_default();
        if !there.contains(kind) {
            there.push(*kind);
        }
    }
    for (status, kinds) in by_status {
        let about: Vec<String> = kinds
            .iter()
            .map(|kind| format!("{} (`{}`).", kind.title(), kind.name()))
            .collect();
        let problem = json!({"$ref": "#/components/schemas/Problem"});
        responses.insert(
            status.to_string(),
            json!({
                "description": about.join(" "),
                "content": {"application/problem+json": {"schema": problem}},
            }),
        );
    }
    Value::Object(responses)
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let schema = match name {
            "id" => json!({"type": "string", "pattern": "^[1-9][0-9]{0,18}$"}),
            _ => json!({
                "type": "string", "minLength": 1, "maxLength": 128,
                "pattern": "^(?!\\.+$)[A-Za-z0-9._:-]+$",
            }),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    };
    names.map(parameter).collect()
}

fn query_parameter(param: &Param) -> Value {
    let schema: Value = serde_json::from_str(param.schema).expect("checked by a test");
    json!({
        "name": param.name, "in": "query", "required": false,
        "description": param.about, "schema": schema,
    })
}

/// Adds a schema and those that it refers to. Returns the reference.
fn add_schema(schemas: &mut BTreeMap<String, Value>, schema: Used) -> Value {
    let name = (schema.name)().into_owned();
    let mut all = vec![(name.clone(), (schema.schema)())];
    (schema.nested)(&mut all);
    for (name, schema) in all {
        let mut schema = serde_json::to_value(schema).expect("schemas are plain values");
        join_descriptions(&mut schema);
        widen_integers(&mut schema);
        schemas.insert(name, schema);
    }
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A described field whose type has its own schema is generated as `allOf` that schema and a described
/// object, which is wrong: the description belongs to the reference.
fn join_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(join_descriptions);
            let parts = map.get("allOf").and_then(Value::as_array).map(Vec::as_slice);
            let Some([Value::Object(own), Value::Object(said)]) = parts else {
                return;
            };
            let only_said = said.len() == 2 && said.get("type") == Some(&json!("object"));
            if let Some(description) = said.get("description").filter(|_| only_said) {
                let mut joined = own.clone();
                joined.insert("description".into(), description.clone());
                *map = joined;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(join_descriptions),
        _ => (),
    }
}

/// JSON Schema formats have no unsigned integers, so a 32-bit one gets a maximum.
fn widen_integers(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(widen_integers);
            let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
            let is_unsigned = map
                .get("minimum")
                .and_then(Value::as_f64)
                .is_some_and(|least| least >= 0.0);
            let is_u32 = format == "int32";
            if is_unsigned && matches!(format, "int32" | "int64") {
                map.remove("format");
                if is_u32 {
                    map.entry("maximum").or_insert(json!(u32::MAX));
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(widen_integers),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every reference resolves.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.push(reference.clone());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => (),
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn requests_refuse_unknown_fields_in_their_schemas_too() {
        let document = document();
        for name in [
            "NewJob",
            "Claim",
            "Complete",
            "Fail",
            "Settings",
            "NewToken",
            "Replay",
            "RouteTest",
        ] {
            let schema = &document["components"]["schemas"][name];
            assert_eq!(schema["additionalProperties"], json!(false), "{name}: {schema}");
        }
    }
}
