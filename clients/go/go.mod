module nagaya.dev/go

go 1.19
