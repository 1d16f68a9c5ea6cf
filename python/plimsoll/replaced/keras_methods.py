"""The training methods of Keras that may be replaced, by their fingerprints.

Each line is a version of a method, with the first Keras that had it of those that were looked at
(3.0.5, 3.1.1, 3.2.1, 3.3.3, 3.4.1, 3.5 to 3.8, 3.9.2, 3.10, 3.11.3, 3.12 to 3.14, 3.15.1). A method
belongs here once the package gives its arguments the meaning that they have there.
"""

from __future__ import annotations

NAMES = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")

KNOWN: dict[str, dict[str, set[str]]] = {
    "TensorFlowTrainer": {
        "fit": {
            "3779b30dcfb8",  # 3.0.5
            "2160ec5b2a2f",  # 3.1.1
            "b9ef1f6b7929",  # 3.3.3
            "17fb3ed4fe4a",  # 3.5.0
            "7a7d115f141d",  # 3.6.0
            "142a0753afd1",  # 3.7.0
            "bfca30faded8",  # 3.10.0
        },
        "evaluate": {
            "89bcfb383000",  # 3.0.5
            "5bcc37c3b97b",  # 3.3.3
            "00370da81402",  # 3.5.0
            "2498e2dcfbf8",  # 3.6.0
            "9e9bcba9fdf8",  # 3.7.0
            "4d6105475751",  # 3.14.0
        },
        "predict": {
            "7cd94bfe2c98",  # 3.0.5
            "64a355afbf59",  # 3.1.1
            "43738f782e48",  # 3.7.0
        },
        "train_on_batch": {
            "2150c544933f",  # 3.0.5
            "e9e4579a6c60",  # 3.1.1
            "fc857e1c6752",  # 3.5.0
            "9824777d0e9c",  # 3.14.0
            "7979bf5721e4",  # 3.15.1
        },
        "test_on_batch": {
            "b9793cf511c6",  # 3.0.5
            "2c9b3aa648b8",  # 3.1.1
            "2e239de42696",  # 3.5.0
            "3def10669816",  # 3.14.0
            "ac36f9b9254d",  # 3.15.1
        },
        "predict_on_batch": {
            "20be02606128",  # 3.0.5
            "530e4572c6bf",  # 3.1.1
        },
    },
    "JAXTrainer": {
        "fit": {
            "0fc262b0e04b",  # 3.0.5
            "38f0a381a0c7",  # 3.1.1
            "396f6e8f74db",  # 3.3.3
            "c669e4a7d8d4",  # 3.6.0
            "7b9805d68de3",  # 3.7.0
            "267499d346f5",  # 3.9.2
            "2821a20dffea",  # 3.10.0
            "9afb609cde25",  # 3.12.0
        },
        "evaluate": {
            "b6b2b4b2631a",  # 3.0.5
            "4689961207ab",  # 3.3.3
            "a47fe7dd631e",  # 3.6.0
            "7e032348f9e1",  # 3.7.0
            "c9e856e0f4ee",  # 3.9.2
            "d3c442da8827",  # 3.10.0
            "435baee7a7a8",  # 3.12.0
            "81b928654e6b",  # 3.14.0
        },
        "predict": {
            "ccf2451bce09",  # 3.0.5
            "7d28a5e9d89e",  # 3.7.0
            "c58f63afe48b",  # 3.9.2
            "abd12e5346e7",  # 3.11.3
            "123e36fad073",  # 3.12.0
        },
        "train_on_batch": {
            "c5462a069104",  # 3.0.5
            "2ec91888aede",  # 3.7.0
            "e97b35b21911",  # 3.12.0
            "4e3efd8bcc01",  # 3.14.0
            "741ce73521c0",  # 3.15.1
        },
        "test_on_batch": {
            "3e0c24387d8f",  # 3.0.5
            "db76928b241c",  # 3.7.0
            "136ea5c2034b",  # 3.12.0
            "f8babd7653bd",  # 3.14.0
            "9698a8ab60c3",  # 3.15.1
        },
        "predict_on_batch": {
            "531162a91cba",  # 3.0.5
            "f2d79267c7da",  # 3.12.0
        },
    },
    "TorchTrainer": {  # whose steps are guarded, and which the engine does not take over
        "fit": {"31d61b2d00b2"},  # 3.15.1, as all of these
        "evaluate": {"ccca7cd7b93c"},
        "predict": {"d011aec92c20"},
        "train_on_batch": {"55c2500650bd"},
        "test_on_batch": {"44fd7d807418"},
        "predict_on_batch": {"f919cdc7bd27"},
    },
}
