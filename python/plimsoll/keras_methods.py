"""The training methods of Keras that may be replaced, by what finder.fingerprint makes of them.

Each line is a version of a method, with the first Keras that had it of those that were looked at
(3.0.5, 3.1.1, 3.2.1, 3.3.3, 3.4.1, 3.5 to 3.8, 3.9.2, 3.10, 3.11.3, 3.12 to 3.14, 3.15.1). A method
belongs here once the package gives its arguments the meaning that they have there.
"""

from __future__ import annotations

NAMES = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")

KNOWN: dict[str, dict[str, set[str]]] = {
    "TensorFlowTrainer": {
        "fit": {
            "6dcce70c34a8",  # 3.0.5
            "6252814dac34",  # 3.1.1
            "8f8739d9c222",  # 3.3.3
            "a26c9db61332",  # 3.5.0
            "3b4bdef1233e",  # 3.6.0
            "db63d04a7831",  # 3.7.0
            "2999e66fd464",  # 3.10.0
        },
        "evaluate": {
            "892ad01ccb74",  # 3.0.5
            "51faadf447c7",  # 3.3.3
            "63927db89fc4",  # 3.5.0
            "d1678a707f87",  # 3.6.0
            "fe0945d0117d",  # 3.7.0
            "585e409ee7c3",  # 3.14.0
        },
        "predict": {
            "be285680898d",  # 3.0.5
            "9c34abc24b0c",  # 3.1.1
            "f77c7a99a9f7",  # 3.7.0
        },
        "train_on_batch": {
            "4474a551a364",  # 3.0.5
            "e26a8b225893",  # 3.1.1
            "f8f76f204898",  # 3.5.0
            "892942439966",  # 3.14.0
            "9c45d67b10b5",  # 3.15.1
        },
        "test_on_batch": {
            "5a4d87c7842d",  # 3.0.5
            "3bf2b9cb3721",  # 3.1.1
            "dcd8a744a91c",  # 3.5.0
            "ee42a66a4b21",  # 3.14.0
            "6703ca6062ed",  # 3.15.1
        },
        "predict_on_batch": {
            "6716670e7915",  # 3.0.5
            "67b90d27921c",  # 3.1.1
        },
    },
    "JAXTrainer": {
        "fit": {
            "87ba86779bef",  # 3.0.5
            "23449be1a7e5",  # 3.1.1
            "a7d2b2077bd7",  # 3.3.3
            "c97ea8bd0768",  # 3.6.0
            "dc5ff06aa4d0",  # 3.7.0
            "5c3302eb660f",  # 3.9.2
            "16fd68719cde",  # 3.10.0
            "4e30551e3587",  # 3.12.0
        },
        "evaluate": {
            "a8e77ba842a7",  # 3.0.5
            "bc712a01da80",  # 3.3.3
            "6f037fb0ec34",  # 3.6.0
            "ca563d1a2e0c",  # 3.7.0
            "3493afa3368b",  # 3.9.2
            "5865d2d5fa36",  # 3.10.0
            "3188d42a0183",  # 3.12.0
            "82e8e90d25bc",  # 3.14.0
        },
        "predict": {
            "5c8878e172fd",  # 3.0.5
            "39a2f37598ab",  # 3.7.0
            "4ee2e88f2584",  # 3.9.2
            "0c32b579a0cd",  # 3.11.3
            "3a9827c6a434",  # 3.12.0
        },
        "train_on_batch": {
            "adbd0111c9b5",  # 3.0.5
            "678a1eb88f6d",  # 3.7.0
            "4c00545589f3",  # 3.12.0
            "2a2fed905814",  # 3.14.0
            "476a83ce283c",  # 3.15.1
        },
        "test_on_batch": {
            "aeb7d55ff567",  # 3.0.5
            "7ad06371cbdb",  # 3.7.0
            "59a3fd8c4243",  # 3.12.0
            "bd298962ec14",  # 3.14.0
            "4dd5ca9448bd",  # 3.15.1
        },
        "predict_on_batch": {
            "431b89b431aa",  # 3.0.5
            "37b04e7262c2",  # 3.12.0
        },
    },
}
