module conform

go 1.18
