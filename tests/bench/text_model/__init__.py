"""How the table of text vectors was made (`overlay/search/model`), in three steps, and that of foreign words.

    python -m tests.bench.text_model.collect DIR DATA SETS MIRROR   texts, listings and questions: DIR/train.json.xz
    python -m tests.bench.text_model.teach DIR MINILM               the vectors of all-MiniLM-L6-v2: DIR/teacher.npz
    python -m tests.bench.text_model.fit DIR OUT.npz [NAME=VALUE …] the table
    python -m tests.bench.text_model.foreign FOLDER                 words of other languages, by this table

DATA: the public lists and agent cards. SETS: a folder of benchmarks (tools.jsonl, queries.jsonl), whose tools are texts
and whose questions are used only where `fit` names their set (sets=a,b). MIRROR: git directories OWNER+NAME/repo of
`collect.REPOSITORIES`, at the commits in `overlay/search/model/NOTICE`. MINILM: the model's files.

`teach` needs torch, safetensors, tokenizers and transformers (30 s on a GPU), `fit` scipy, or cupy (a minute; 7 minutes
without a GPU). `collect` gives the same bytes whenever it is run.
"""
