module redisq.example

go 1.18
