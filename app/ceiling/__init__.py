"""The roof: speeds that hardware cannot beat, each with its arithmetic in words.

    sources    a file or text -> Geometry   (gguf, gguf_cursor, ggml_geometry, hf_config, hf_layers, windows, ollama)
    geometry   what is known of a model     (types: number formats)
    traffic    Geometry -> bytes of a step
    decode     bytes of a step, devices -> decode ceiling
    prefill    Geometry, devices -> prefill ceiling and TTFT floor
    report     all of it for one model on one device
    efficiency how much of its ceiling a run reaches, beside published results (published)
    fit, advice, curve   where the time goes, what would change it, how it falls with context

Everything is frozen values in, frozen values out. GB is 1e9 bytes, GiB 2^30; inside there are only bytes and seconds.
"""
