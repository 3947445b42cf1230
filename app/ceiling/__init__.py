"""Ceilings: speeds that hardware cannot beat, each with its arithmetic in words (docs/ceilings.md).

    geometry        what is known of a model: weights by role, attention layers, states
    number_formats  bytes of a block, bits of a KV cache type, bits per weight of a quantization's label
    sources         a file or text -> Geometry
        gguf, ggml_keys, ggml_geometry      GGUF files, and what Ollama repeats of them
        hf_config, hf_keys, hf_layers, hf_blocks, hf_recurrent, hf_quantization      config.json
        structural_keys, named_totals      what a file says that is not understood, or contradicts its tensors
    bytes_per_step  Geometry -> bytes of a decode step
    offload, layout which bytes are on which cards, and which in system memory
    decode          bytes of a step, devices -> decode ceiling, and how it falls with context
    prefill         Geometry, devices -> prefill ceiling and TTFT floor
    report          all of it for one model on one device
    efficiency      the share of its ceiling that a run reaches, beside published results
    advice          where the time of a token goes, and what would make it faster

Everything is frozen values in, frozen values out. GB is 1e9 bytes, GiB 2^30; inside there are only bytes and seconds.
"""
