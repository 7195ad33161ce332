"""The whole CSI controller, made by `app.build()`, against pvesim over HTTPS, through its gRPC socket."""
