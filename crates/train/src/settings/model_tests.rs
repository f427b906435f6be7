use serde_json::json;

use super::*;

fn read_model(value: Value) -> Result<ModelSettings> {
    let mut warnings = Vec::new();
    let model = read(&value, &mut warnings)?;
    assert_eq!(warnings, []);
    Ok(model)
}

fn embedding_model(extra: Value) -> Value {
    let mut embedding = json!({"output_dim": 4, "hidden_dims": [12, 12, 6], "svd": {"size": 5}});
    for (key, value) in extra.as_object().unwrap() {
        embedding[key] = value.clone();
    }
    json!({"posterior_kwargs": {"num_flow_steps": 2}, "embedding_kwargs": embedding})
}

const STRAIN: SampleShape = SampleShape {
    parameters: 3,
    observation: ObservationShape::Strain([2, 3, 10]),
    context_parameters: 2,
};

#[test]
fn sizes_follow_from_the_data() {
    let model = read_model(embedding_model(json!({}))).unwrap();
    let network = model.complete(&STRAIN).unwrap();
    assert_eq!(network.posterior_kwargs.input_dim, 3);
    assert_eq!(network.posterior_kwargs.context_dim, Some(6));
    let embedding = network.embedding_kwargs.as_ref().unwrap();
    assert_eq!(embedding.input_dims, [2, 3, 10]);
    assert!(embedding.added_context);
    assert_eq!(embedding.norm, Some(Norm::BatchNorm));
    dunnart_flow::Architecture::new(network.clone()).unwrap();
    // Written back and read again, the sizes agree with the same data and with no others.
    let written = serde_json::to_value(model.with_sizes(&network)).unwrap();
    let model = read_model(written).unwrap();
    assert_eq!(model.complete(&STRAIN).unwrap(), network);
    let other = SampleShape {
        parameters: 4,
        ..STRAIN
    };
    let error = model.complete(&other).unwrap_err().to_string();
    assert_eq!(
        error,
        "setting `model.posterior_kwargs.input_dim`: expected 4, as in the data, got 3"
    );
    let other = SampleShape {
        context_parameters: 0,
        ..STRAIN
    };
    assert!(
        model
            .complete(&other)
            .unwrap_err()
            .to_string()
            .contains("added_context")
    );
}

#[test]
fn plain_observations_are_the_context() {
    let model = read_model(json!({"posterior_kwargs": {"num_flow_steps": 2}})).unwrap();
    let shape = |observation| SampleShape {
        parameters: 5,
        observation,
        context_parameters: 0,
    };
    let network = model.complete(&shape(ObservationShape::Vector(8))).unwrap();
    assert_eq!(network.posterior_kwargs.context_dim, Some(8));
    assert_eq!(network.embedding_kwargs, None);
    let network = model.complete(&shape(ObservationShape::Nothing)).unwrap();
    assert_eq!(network.posterior_kwargs.context_dim, None);
    assert!(
        model
            .complete(&STRAIN)
            .unwrap_err()
            .to_string()
            .contains("`model.embedding_kwargs`")
    );
    let model = read_model(embedding_model(json!({}))).unwrap();
    let error = model
        .complete(&shape(ObservationShape::Vector(8)))
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[test]
fn normalisation_in_all_spellings() {
    let norm =
        |extra: Value| read_model(embedding_model(extra)).map(|m| m.embedding_kwargs.unwrap().norm);
    assert_eq!(norm(json!({})).unwrap(), Some(Norm::BatchNorm));
    assert_eq!(norm(json!({"norm": null})).unwrap(), None);
    assert_eq!(norm(json!({"norm": "None"})).unwrap(), None);
    assert_eq!(
        norm(json!({"norm": "layernorm"})).unwrap(),
        Some(Norm::LayerNorm)
    );
    assert_eq!(
        norm(json!({"batch_norm": true})).unwrap(),
        Some(Norm::BatchNorm)
    );
    assert_eq!(
        norm(json!({"batch_norm": "true"})).unwrap(),
        Some(Norm::BatchNorm)
    );
    assert_eq!(norm(json!({"batch_norm": false})).unwrap(), None);
    assert_eq!(
        norm(json!({"batch_norm": false, "layer_norm": true})).unwrap(),
        Some(Norm::LayerNorm)
    );
    for both in [
        json!({"batch_norm": true, "layer_norm": true}),
        json!({"batch_norm": true, "norm": "LayerNorm"}),
    ] {
        let error = norm(both).unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    }
}

#[test]
fn models_of_old_versions_are_read() {
    let old = json!({
        "type": "nsf+embedding",
        "nsf_kwargs": {"num_flow_steps": 2, "base_transform_kwargs": {"batch_norm": true}},
        "embedding_net_kwargs": {"output_dim": 4, "hidden_dims": [6], "svd": {"size": 5}},
    });
    let new = json!({
        "posterior_model_type": "normalizing_flow",
        "posterior_kwargs": {"num_flow_steps": 2, "base_transform_kwargs": {"norm": "BatchNorm"}},
        "embedding_type": "resnet",
        "embedding_kwargs": {"output_dim": 4, "hidden_dims": [6], "svd": {"size": 5}},
    });
    assert_eq!(read_model(old).unwrap(), read_model(new).unwrap());
    let error = read_model(json!({"type": "other"}))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`model.type`"), "{error}");
}
