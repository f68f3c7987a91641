//! JSON-RPC 2.0, by the examples of its specification turned on a calculator.

use serde_json::{Value, json};

use crate::calling::{agent, post, served, url};

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap()
}

#[test]
fn calls_are_answered_by_their_id() {
    let server = served();
    let rpc = |body: Value| {
        let (status, answer) = post(&server, "/api/-/rpc", &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let call = json!({"jsonrpc":"2.0","method":"calculator.add","params":[1,2],"id":7});
    assert_eq!(rpc(call), json!({"jsonrpc":"2.0","result":3,"id":7}));
    let named = json!({"jsonrpc":"2.0","method":"sum","params":{"b":2,"a":5},"id":"x"});
    assert_eq!(rpc(named), json!({"jsonrpc":"2.0","result":7,"id":"x"}));
    let unknown = rpc(json!({"jsonrpc":"2.0","method":"calculator.power","id":1}));
    assert_eq!((code(&unknown), &unknown["id"]), (-32601, &json!(1)));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("add, divide"), "{unknown}");
    let params = json!({"jsonrpc":"2.0","method":"sum","params":{"a":"one","b":2},"id":null});
    let params = rpc(params);
    assert_eq!((code(&params), &params["id"]), (-32602, &Value::Null));
    assert_eq!(params["error"]["data"]["errors"][0]["field"], "a");
    let own = rpc(json!({"jsonrpc":"2.0","method":"calculator.divide","params":[0,1],"id":2}));
    assert_eq!((code(&own), &own["error"]["data"]["kind"]), (-32000, &json!("conflict")));
    let panic = rpc(json!({"jsonrpc":"2.0","method":"calculator.divide","params":[1,0],"id":2}));
    assert_eq!(code(&panic), -32603);
    for wrong in [
        json!({"method":"sum","params":[1,2],"id":1}),
        json!({"jsonrpc":"2.0","method":1,"id":1}),
        json!({"jsonrpc":"2.0","params":[1,2],"id":1}),
        json!({"jsonrpc":"2.0","method":"sum","params":[1,2],"id":{}}),
        json!([]),
        json!(1),
    ] {
        assert_eq!(code(&rpc(wrong.clone())), -32600, "{wrong}");
    }
    let (_, parse) = post(&server, "/api/-/rpc", r#"{"jsonrpc":"2.0","method":"#);
    assert_eq!((code(&parse), &parse["id"]), (-32700, &Value::Null));
}

#[test]
fn batches_are_answered_but_for_notifications() {
    let server = served();
    let batch = json!([
        {"jsonrpc":"2.0","method":"sum","params":[1,2],"id":"1"},
        {"jsonrpc":"2.0","method":"sum","params":[7,8]},
        {"foo":"boo"},
        1,
        {"jsonrpc":"2.0","method":"calculator.nothing","id":"5"},
        {"jsonrpc":"2.0","method":"calculator.name","id":"9"},
    ]);
    let (_, answers) = post(&server, "/api/-/rpc", &batch.to_string());
    let answers = answers.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("1"), &Value::Null, &Value::Null, &json!("5"), &json!("9")]);
    assert_eq!(answers[0]["result"], 3);
    assert_eq!([code(&answers[1]), code(&answers[2])], [-32600, -32600]);
    assert_eq!(code(&answers[3]), -32601);
    assert_eq!(answers[4]["result"], "calculator.name");
    for silent in [
        json!({"jsonrpc":"2.0","method":"sum","params":[7,8]}),
        json!({"jsonrpc":"2.0","method":"nothing"}),
        json!([{"jsonrpc":"2.0","method":"sum","params":[7,8]}]),
    ] {
        let answer = agent()
            .post(url(&server, "/api/-/rpc"))
            .content_type("application/json")
            .send(silent.to_string())
            .unwrap();
        assert_eq!(answer.status(), 204, "{silent}");
    }
    let many: Vec<Value> =
        (0..1_001).map(|id| json!({"jsonrpc":"2.0","method":"x","id":id})).collect();
    let (_, refused) = post(&server, "/api/-/rpc", &Value::from(many).to_string());
    assert_eq!(code(&refused), -32600);
}
